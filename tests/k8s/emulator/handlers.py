"""What each verb does with a resource: from a request to an answer."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .apply import Owners, apply_server_side
from .history import Record
from .kinds import Resource
from .listing import Lister
from .patches import APPLY_PATCH, apply_patch, list_accepted
from .rbac import Access, Action
from .requests import Request, Target
from .statuses import ApiError, BadRequest, FieldError, Invalid, NotFound, UnsupportedMediaType
from .store import Store
from .tables import make_table
from .validation import check_uid, decode

Body = dict[str, Any]
#: Lines of a container: the pod, the container's name and the query of the request.
LogSource = Callable[[Body, str, Mapping[str, str]], Iterable[bytes]]
_JSON = "application/json"
_PULL_TROUBLE = ("ErrImagePull", "ImagePullBackOff")


@dataclass(slots=True)
class Answer:
    """``parts`` is the body of an answer that comes in pieces; ``text`` that of any other."""

    code: int
    text: str = ""
    content_type: str = _JSON
    headers: dict[str, str] = field(default_factory=dict)
    parts: Iterable[bytes] | None = None


def answer_json(body: Any, code: int = 200) -> Answer:
    return Answer(code, json.dumps(body, separators=(",", ":")) + "\n")


def answer_error(error: ApiError) -> Answer:
    answer = answer_json(error.status, error.code)
    if error.retry_after_s is not None:
        answer.headers["Retry-After"] = str(error.retry_after_s)
    return answer


class Handlers:
    """Requests about resources, but for watches; ``logs`` gives the lines of containers."""

    def __init__(self, store: Store, access: Access) -> None:
        self._store = store
        self._access = access
        self._owners = Owners()
        self.lister = Lister(store)
        self.logs: LogSource | None = None

    def handle(self, request: Request) -> Answer:
        target = request.target
        assert target is not None
        if target.resource.kind == "SelfSubjectAccessReview":
            return self._review(request)
        special = _SPECIAL.get((target.subresource, request.verb))
        handler = special or _VERBS[request.verb]
        return handler(self, request, target)

    def _get(self, request: Request, target: Target) -> Answer:
        obj = self._read(target)
        if wants_table(request):
            return answer_json(self._make_table(target, [obj], {}))
        return answer_json(convert(obj, target))

    def _read(self, target: Target) -> Body:
        return self._store.get(target.resource.kind, target.namespace, target.name)

    def _list(self, request: Request, target: Target) -> Answer:
        records, metadata = self.lister.list(request, target)
        if wants_table(request):
            objects = [record.shared for record in records]
            return answer_json(self._make_table(target, objects, metadata))
        return Answer(200, _join_list(target, records, metadata))

    def _make_table(self, target: Target, objects: list[Body], metadata: Body) -> Body:
        return make_table(target.resource, target.version, objects, metadata, self._store.clock())

    def _create(self, request: Request, target: Target) -> Answer:
        obj = self._decode(request, target)
        metadata = obj.setdefault("metadata", {})
        _check_namespace(target, metadata)
        obj = self._store.create(obj, user=request.user.name, dry_run=request.is_dry_run)
        return answer_json(convert(obj, target), 201)

    def _decode(self, request: Request, target: Target) -> Body:
        if request.content_type not in (_JSON, "*/*"):
            raise UnsupportedMediaType([_JSON, "application/yaml"])
        obj = request.parse_body()
        if not isinstance(obj, dict):
            raise BadRequest("unable to decode the body: it must be a JSON object")
        self._clean(request, target, obj)
        return obj

    def _clean(self, request: Request, target: Target, obj: Body) -> None:
        """Check and prune a body, and make it the version that the store has."""
        mode = request.query.get("fieldValidation") or "Warn"
        request.warnings += decode(target.resource, target.version, obj, mode)
        obj["apiVersion"] = target.resource.api_version

    def _update(self, request: Request, target: Target) -> Answer:
        obj = self._decode(request, target)
        metadata = obj.setdefault("metadata", {})
        _check_namespace(target, metadata)
        if metadata.get("name") != target.name:
            raise BadRequest(
                f"the name of the object ({metadata.get('name', '')}) does not match the name on "
                f"the URL ({target.name})"
            )
        if target.resource.is_custom and not metadata.get("resourceVersion"):
            detail = "must be specified for an update"
            error = FieldError("metadata.resourceVersion", "FieldValueInvalid", detail, 0)
            self._read(target)
            raise Invalid(target.resource, target.name, [error])
        return answer_json(convert(self._write(request, target, obj), target))

    def _write(self, request: Request, target: Target, obj: Body) -> Body:
        return self._store.update(
            obj,
            subresource=target.subresource,
            user=request.user.name,
            dry_run=request.is_dry_run,
        )

    def _patch(self, request: Request, target: Target) -> Answer:
        if request.content_type not in list_accepted(target.resource):
            raise UnsupportedMediaType(list_accepted(target.resource))
        patch = request.parse_body()
        with self._store.hold():
            if request.content_type == APPLY_PATCH:
                obj, code = self._apply(request, target, patch)
                return answer_json(convert(obj, target), code)
            before = self._read(target)
            new = apply_patch(target.resource, request.content_type, before, patch)
            new["apiVersion"] = target.resource.get_api_version(target.version)
            self._clean(request, target, new)
            check_uid(target.resource, new, before["metadata"]["uid"])
            obj = self._write(request, target, new)
        return answer_json(convert(obj, target))

    def _apply(self, request: Request, target: Target, patch: Body) -> tuple[Body, int]:
        """Server-side apply: create what is absent, else change what the manager may."""
        self._clean(request, target, patch)
        manager = request.query.get("fieldManager", "")
        is_forced = request.query.get("force") in ("1", "true")
        try:
            before = self._read(target)
        except NotFound:
            patch.setdefault("metadata", {}).update({"namespace": target.namespace})
            obj = self._store.create(patch, user=request.user.name, dry_run=request.is_dry_run)
            self._owners.take(obj["metadata"]["uid"], manager, patch)
            return obj, 201
        new = apply_server_side(self._owners, before, patch, manager, is_forced=is_forced)
        obj = self._write(request, target, new)
        self._owners.take(obj["metadata"]["uid"], manager, patch)
        return obj, 200

    def _delete(self, request: Request, target: Target) -> Answer:
        options = _read_options(request)
        obj = self._delete_one(request, target.resource, target.namespace, target.name, options)
        if "deletionTimestamp" in obj["metadata"] or target.resource.kind == "Pod":
            return answer_json(convert(obj, target))
        details = {
            "name": target.name,
            "group": target.resource.group,
            "kind": target.resource.plural,
            "uid": obj["metadata"]["uid"],
        }
        return answer_json(make_success({k: v for k, v in details.items() if v}))

    def _delete_one(
        self, request: Request, resource: Resource, namespace: str, name: str, options: Body
    ) -> Body:
        preconditions = options.get("preconditions") or {}
        return self._store.delete(
            resource.kind,
            namespace,
            name,
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            propagation=_choose_propagation(resource, options),
            grace_s=options.get("gracePeriodSeconds"),
            user=request.user.name,
            dry_run=request.is_dry_run or options.get("dryRun") == ["All"],
        )

    def _delete_collection(self, request: Request, target: Target) -> Answer:
        options = _read_options(request)
        records, metadata = self.lister.list(request, target)
        for record in records:
            row = record.shared["metadata"]
            self._delete_one(
                request, target.resource, row.get("namespace", ""), row["name"], options
            )
        return Answer(200, _join_list(target, records, metadata))

    def _evict(self, request: Request, target: Target) -> Answer:
        """Mark a pod as disrupted, then delete it as the eviction's options say."""
        body = request.parse_body() or {}
        options = {**(body.get("deleteOptions") or {})}
        pod = self._read(target)
        is_dry_run = request.is_dry_run or options.get("dryRun") == ["All"]
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed") and not is_dry_run:
            self._mark_evicted(target)
        self._delete_one(request, target.resource, target.namespace, target.name, options)
        return answer_json({**make_success(None), "code": 201}, 201)

    def _mark_evicted(self, target: Target) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": self._store.read_time(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }

        def add(pod: Body) -> None:
            status = pod.setdefault("status", {})
            rows = [r for r in status.get("conditions", ()) if r["type"] != condition["type"]]
            status["conditions"] = [*rows, condition]

        self._store.modify("Pod", target.namespace, target.name, add, subresource="status")

    def _bind(self, request: Request, target: Target) -> Answer:
        node = (request.parse_body() or {}).get("target", {}).get("name", "")

        def bind(pod: Body) -> None:
            pod["spec"]["nodeName"] = node

        self._store.modify("Pod", target.namespace, target.name, bind, subresource="binding")
        return answer_json({**make_success(None), "code": 201}, 201)

    def _log(self, request: Request, target: Target) -> Answer:
        pod = self._read(target)
        name = _choose_container(pod, request.query.get("container", ""))
        if reason := _find_waiting(pod, name):
            words = "image can't be pulled" if reason in _PULL_TROUBLE else reason
            raise BadRequest(
                f'container "{name}" in pod "{target.name}" is waiting to start: {words}'
            )
        if self.logs is None:
            return Answer(200, "", "text/plain")
        return Answer(200, content_type="text/plain", parts=self.logs(pod, name, request.query))

    def _review(self, request: Request) -> Answer:
        body = request.parse_body() or {}
        wanted = body.get("spec", {}).get("resourceAttributes") or {}
        action = Action(
            wanted.get("verb", ""),
            wanted.get("group", ""),
            wanted.get("resource", ""),
            wanted.get("subresource", ""),
            wanted.get("namespace", ""),
            wanted.get("name", ""),
        )
        if path := body.get("spec", {}).get("nonResourceAttributes"):
            action = Action(path.get("verb", ""), path=path.get("path", ""))
        is_allowed = self._access.allows(request.user, action)
        status = {"allowed": is_allowed, **({"reason": "RBAC: allowed"} if is_allowed else {})}
        identity = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
        return answer_json({**body, **identity, "metadata": {}, "status": status}, 201)


def wants_table(request: Request) -> bool:
    return "as=Table" in request.headers.get("accept", "")


def convert(obj: Body, target: Target) -> Body:
    """The object in the version that the request names."""
    return {**obj, "apiVersion": target.resource.get_api_version(target.version)}


def make_success(details: Body | None) -> Body:
    more = {"details": details} if details else {}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", **more}


def _join_list(target: Target, records: list[Record], metadata: Body) -> str:
    """The text of a list; items of core kinds have no kind and version of their own."""
    resource = target.resource
    version = resource.get_api_version(target.version)
    if resource.is_custom and version != resource.api_version:
        texts = [json.dumps(convert(record.shared, target)) for record in records]
    else:
        texts = [record.text if resource.is_custom else record.bare_text for record in records]
    head = {"kind": f"{resource.kind}List", "apiVersion": version, "metadata": metadata}
    return f'{json.dumps(head)[:-1]},"items":[{",".join(texts)}]}}\n'


def _check_namespace(target: Target, metadata: Body) -> None:
    if target.resource.is_namespaced:
        namespace = metadata.setdefault("namespace", target.namespace)
        if namespace != target.namespace:
            raise BadRequest(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )


def _read_options(request: Request) -> Body:
    """Options of a deletion: those of the body, with those of the query."""
    body = request.parse_body()
    options = body if isinstance(body, dict) else {}
    if text := request.query.get("propagationPolicy"):
        options["propagationPolicy"] = text
    if (text := request.query.get("gracePeriodSeconds", "")).isdigit():
        options["gracePeriodSeconds"] = int(text)
    return options


def _choose_propagation(resource: Resource, options: Body) -> str:
    """Jobs leave their pods behind unless a caller says otherwise."""
    if policy := options.get("propagationPolicy"):
        return str(policy)
    if options.get("orphanDependents") is not None:
        return "Orphan" if options["orphanDependents"] else "Background"
    return "Orphan" if resource.kind == "Job" else "Background"


def _choose_container(pod: Body, name: str) -> str:
    names = [row["name"] for row in pod["spec"]["containers"]]
    names += [row["name"] for row in pod["spec"].get("initContainers") or ()]
    if name in names:
        return name
    if name:
        raise BadRequest(f"container {name} is not valid for pod {pod['metadata']['name']}")
    if len(pod["spec"]["containers"]) > 1:
        shown = " ".join(names)
        raise BadRequest(
            f"a container name must be specified for pod {pod['metadata']['name']}, choose one "
            f"of: [{shown}]"
        )
    return str(names[0])


def _find_waiting(pod: Body, name: str) -> str:
    """Why a container waits to start; empty where it runs or has ended."""
    rows = pod.get("status", {}).get("containerStatuses") or ()
    for row in rows:
        if row["name"] == name:
            waiting = (row.get("state") or {}).get("waiting")
            return waiting.get("reason", "ContainerCreating") if waiting else ""
    if not pod["spec"].get("nodeName"):
        return ""
    return "ContainerCreating" if not rows else ""


Handler = Callable[[Handlers, Request, Target], Answer]
_VERBS: Mapping[str, Handler] = {
    "create": Handlers._create,
    "delete": Handlers._delete,
    "deletecollection": Handlers._delete_collection,
    "get": Handlers._get,
    "list": Handlers._list,
    "patch": Handlers._patch,
    "update": Handlers._update,
}
_SPECIAL: Mapping[tuple[str, str], Handler] = {
    ("binding", "create"): Handlers._bind,
    ("eviction", "create"): Handlers._evict,
    ("log", "get"): Handlers._log,
}
