"""What the server says of itself: version, groups, resources, and just enough OpenAPI."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from .kinds import RESOURCES, STANDARD_VERBS, Resource, list_subresources

Body = dict[str, Any]
MINOR = "36"
VERSION = {
    "major": "1",
    "minor": MINOR,
    "emulationMajor": "1",
    "emulationMinor": MINOR,
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-06-01T00:00:00Z",
    "goVersion": "go1.26.0",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_AUTHORIZATION = "authorization.k8s.io"
#: Groups without objects: what they have is only posted.
_POSTED = {_AUTHORIZATION: ("v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews")}
_POLICY = "policy"
_SUBRESOURCE_KINDS: Mapping[str, tuple[str, str, str, tuple[str, ...]]] = {
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": (_POLICY, "v1", "Eviction", ("create",)),
    "log": ("", "", "Pod", ("get",)),
}


class Discovery:
    """Answers of discovery; groups in ``hidden`` are as if they were not installed.

    ``other_versions`` are the versions of groups of which another release is installed.
    """

    def __init__(self) -> None:
        self.hidden: set[str] = set()
        self.other_versions: dict[str, tuple[str, ...]] = {}

    def answer(self, path: str, accept: str) -> Body | None:
        """The answer for a path; None where the path is not discovery's."""
        parts = [part for part in path.strip("/").split("/") if part]
        if parts == ["version"]:
            return dict(VERSION)
        if parts == ["api"]:
            return self._answer_core(accept)
        if parts == ["apis"]:
            return self._answer_groups(accept)
        if parts[:2] == ["openapi", "v3"]:
            return self._answer_openapi(parts[2:])
        if len(parts) in (2, 3) and parts[0] in ("api", "apis"):
            return self._answer_group(parts)
        return None

    def _list_groups(self) -> dict[str, tuple[str, ...]]:
        groups = {row.group: row.versions for row in RESOURCES if row.group}
        groups.update({group: (row[0],) for group, row in _POSTED.items()})
        groups[_POLICY] = ("v1",)
        groups.update(self.other_versions)
        return {group: rows for group, rows in groups.items() if group not in self.hidden}

    def _answer_core(self, accept: str) -> Body:
        if "APIGroupDiscoveryList" in accept:
            return _make_aggregated([_make_group_discovery("", ("v1",))])
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}

    def _answer_groups(self, accept: str) -> Body:
        groups = self._list_groups()
        if "APIGroupDiscoveryList" in accept:
            return _make_aggregated([_make_group_discovery(*row) for row in groups.items()])
        rows = [_describe_group(group, versions) for group, versions in groups.items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": rows}

    def _answer_group(self, parts: list[str]) -> Body | None:
        if parts == ["api", "v1"]:
            return _make_resource_list("", "v1")
        versions = self._list_groups().get(parts[1], ()) if parts[0] == "apis" else ()
        if len(parts) == 2 and versions:
            return {"kind": "APIGroup", "apiVersion": "v1", **_describe_group(parts[1], versions)}
        if len(parts) == 3 and parts[2] in versions:
            return _make_resource_list(parts[1], parts[2])
        return None

    def _answer_openapi(self, parts: list[str]) -> Body | None:
        rows = [
            ("", "v1"),
            *((g, v) for g, versions in self._list_groups().items() for v in versions),
        ]
        paths = {f"apis/{g}/{v}" if g else f"api/{v}": (g, v) for g, v in rows}
        if not parts:
            urls = {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}
            return {"paths": urls}
        row = paths.get("/".join(parts))
        return _make_openapi(*row) if row else None


def _describe_group(group: str, versions: Collection[str]) -> Body:
    rows = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": rows, "preferredVersion": rows[0]}


def _list_resources(group: str, version: str) -> Iterator[Resource]:
    for row in RESOURCES:
        if row.group == group and version in row.versions:
            yield row


def _make_resource_list(group: str, version: str) -> Body:
    rows: list[Body] = []
    for resource in _list_resources(group, version):
        rows.append(
            {
                "name": resource.plural,
                "singularName": resource.kind.lower(),
                "namespaced": resource.is_namespaced,
                "kind": resource.kind,
                "verbs": list(STANDARD_VERBS),
                **({"shortNames": list(resource.short_names)} if resource.short_names else {}),
            }
        )
        rows += [_describe_subresource(resource, name) for name in list_subresources(resource)]
    if group in _POSTED:
        _, kind, plural = _POSTED[group]
        rows.append(
            {
                "name": plural,
                "singularName": kind.lower(),
                "namespaced": False,
                "kind": kind,
                "verbs": ["create"],
            }
        )
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": rows,
    }


def _describe_subresource(resource: Resource, name: str) -> Body:
    row: Body = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": ["get", "patch", "update"],
    }
    if name in _SUBRESOURCE_KINDS:
        group, version, kind, verbs = _SUBRESOURCE_KINDS[name]
        row.update({"kind": kind, "verbs": list(verbs)})
        if version:
            row.update({"group": group, "version": version})
    return row


def _make_aggregated(items: list[Body]) -> Body:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _make_group_discovery(group: str, versions: Collection[str]) -> Body:
    rows = [
        {"version": version, "resources": _list_discovered(group, version), "freshness": "Current"}
        for version in versions
    ]
    return {"metadata": {"name": group}, "versions": rows}


def _list_discovered(group: str, version: str) -> list[Body]:
    rows = [_discover(resource, version) for resource in _list_resources(group, version)]
    if group in _POSTED:
        _, kind, plural = _POSTED[group]
        rows.append(
            {
                "resource": plural,
                "responseKind": {"group": group, "version": version, "kind": kind},
                "scope": "Cluster",
                "singularResource": kind.lower(),
                "verbs": ["create"],
            }
        )
    return rows


def _discover(resource: Resource, version: str) -> Body:
    row: Body = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": version, "kind": resource.kind},
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": resource.kind.lower(),
        "verbs": list(STANDARD_VERBS),
    }
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    row["subresources"] = [
        _discover_subresource(resource, version, name) for name in list_subresources(resource)
    ]
    return row


def _discover_subresource(resource: Resource, version: str, name: str) -> Body:
    kind: Body = {"group": resource.group, "version": version, "kind": resource.kind}
    verbs: Collection[str] = ("get", "patch", "update")
    if name in _SUBRESOURCE_KINDS:
        group, other, other_kind, verbs = _SUBRESOURCE_KINDS[name]
        kind = {"group": group, "version": other or version, "kind": other_kind}
    return {"subresource": name, "responseKind": kind, "verbs": list(verbs)}


def _make_openapi(group: str, version: str) -> Body:
    """Paths alone: ``kubectl`` looks there whether writes take ``fieldValidation``."""
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]
    prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
    paths = {}
    for resource in _list_resources(group, version):
        kind = {"group": group, "version": version, "kind": resource.kind}
        scope = "/namespaces/{namespace}" if resource.is_namespaced else ""
        operation = {
            "parameters": parameters,
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": kind,
            "responses": {"200": {"description": "OK"}},
        }
        paths[f"{prefix}{scope}/{resource.plural}/{{name}}"] = {"patch": operation}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"v1.{MINOR}.2"},
        "paths": paths,
        "components": {"schemas": {}},
    }
