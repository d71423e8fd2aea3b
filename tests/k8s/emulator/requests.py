"""One request as values: its path taken apart, its query, its body, and what it does."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from .kinds import RESOURCES, Resource, list_subresources
from .rbac import NOBODY, Action, User
from .statuses import BadRequest, PathNotFound, UnsupportedMediaType

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_TRUE = ("1", "true", "True")
_VIRTUAL = (
    Resource(
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "authorization.k8s.io",
        is_namespaced=False,
    ),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A resource, or one object of it, that a path names."""

    resource: Resource
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(slots=True)
class Request:
    """``target`` is None where the path is no resource's."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    target: Target | None = None
    user: User = NOBODY
    warnings: list[str] = field(default_factory=list)

    @property
    def is_watch(self) -> bool:
        return self.method == "GET" and self.query.get("watch") in _TRUE

    @property
    def is_dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "application/json").partition(";")[0].strip()

    @property
    def verb(self) -> str:
        """The verb of the API: for paths of no resource the method in small letters."""
        if self.target is None:
            return self.method.lower()
        if self.is_watch:
            return "watch"
        verb = _VERBS[self.method]
        if self.target.name or verb not in ("get", "delete"):
            return verb
        return "list" if verb == "get" else "deletecollection"

    @property
    def action(self) -> Action:
        target = self.target
        if target is None:
            return Action(self.verb, path=self.path)
        # a Role of a namespace may permit reading the namespace itself
        own = target.name if target.resource.kind == "Namespace" else ""
        return Action(
            self.verb,
            target.resource.group,
            target.resource.plural,
            target.subresource,
            target.namespace or own,
            target.name,
        )

    def get_seconds(self, name: str) -> float | None:
        text = self.query.get(name)
        return float(text) if text and text.isdigit() else None

    def parse_body(self) -> Any:
        """The body as JSON; BadRequest where it is none.

        Protocol buffers, which some of ``kubectl``'s verbs send, are refused (415).
        """
        if not self.body:
            return None
        if "protobuf" in self.content_type:
            raise UnsupportedMediaType(["application/json"])
        try:
            return json.loads(self.body)
        except ValueError as error:
            message = f"couldn't get version/kind; json parse error: {error}"
            raise BadRequest(f"the object provided is unrecognized: {message}") from None


def parse_request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    hidden_groups: Collection[str] = (),
) -> Request:
    """Take a request apart; PathNotFound where no resource of a group has that path."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    target = _parse_path(parts.path, hidden_groups)
    return Request(method, parts.path, query, headers, body, target)


def _parse_path(path: str, hidden_groups: Collection[str]) -> Target | None:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[:2] == ["api", "v1"] and len(parts) > 2:
        return _parse_target("", "v1", parts[2:])
    if parts[0] == "apis" and len(parts) > 3 and parts[1] not in hidden_groups:
        return _parse_target(parts[1], parts[2], parts[3:])
    if parts[0] == "apis" and len(parts) > 3:
        raise PathNotFound
    return None


def _parse_target(group: str, version: str, parts: list[str]) -> Target:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
        namespace, parts = parts[1], parts[2:]
    for resource in (*RESOURCES, *_VIRTUAL):
        is_kind = resource.group == group and resource.plural == parts[0]
        if is_kind and version in resource.versions:
            return _make_target(resource, version, namespace, parts)
    raise PathNotFound


def _make_target(resource: Resource, version: str, namespace: str, parts: list[str]) -> Target:
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    if (subresource and subresource not in list_subresources(resource)) or len(parts) > 3:
        raise PathNotFound
    if bool(namespace) and not resource.is_namespaced:
        raise PathNotFound
    if name and resource.is_namespaced and not namespace:
        raise PathNotFound
    return Target(resource, version, namespace, name, subresource)
