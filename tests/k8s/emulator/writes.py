"""What a write does to an object: which fields it may change, what must hold, how long it stays."""

import json
from typing import Any

from .kinds import BY_KIND, Resource
from .statuses import Conflict

Body = dict[str, Any]
Key = tuple[str, str]
#: What only the store writes.
_OWN_METADATA = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
)


def get_resource(kind: str) -> Resource:
    """The resource of a kind; KeyError where the emulator has none such."""
    return BY_KIND[kind]


def get_key(resource: Resource, obj: Body) -> Key:
    metadata = obj["metadata"]
    namespace = metadata.get("namespace") or "default"
    return (namespace if resource.is_namespaced else "", metadata.get("name", ""))


def check_preconditions(resource: Resource, before: Body, obj: Body) -> None:
    """Refuse an update of another version or another uid than the stored one (Conflict)."""
    name = before["metadata"]["name"]
    uid, stored = obj["metadata"].get("uid"), before["metadata"]["uid"]
    if uid and uid != stored:
        detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"
        raise Conflict(resource, name, detail)
    version = obj["metadata"].get("resourceVersion")
    if version and version != before["metadata"]["resourceVersion"]:
        raise Conflict(resource, name)


def merge_write(resource: Resource, before: Body, obj: Body, subresource: str) -> Body:
    """The object after a write: of ``obj`` only what the (sub)resource lets a caller change."""
    if subresource == "status":
        new = json.loads(json.dumps(before))
        if "status" in obj:
            new["status"] = json.loads(json.dumps(obj["status"]))
        return new
    new = json.loads(json.dumps(obj))
    for field in _OWN_METADATA:
        new["metadata"].pop(field, None)
        if field in before["metadata"]:
            new["metadata"][field] = before["metadata"][field]
    new["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
    if resource.has_status:
        new.pop("status", None)
        if "status" in before:
            new["status"] = before["status"]
    return new


def compute_grace_s(resource: Resource, obj: Body, wanted_s: int | None) -> int:
    """Seconds that a deleted object stays: only pods of a node that have not ended have any."""
    if resource.kind != "Pod":
        return 0
    has_ended = obj.get("status", {}).get("phase") in ("Succeeded", "Failed")
    if has_ended or not obj.get("spec", {}).get("nodeName"):
        return 0
    if wanted_s is not None:
        return max(wanted_s, 0)
    return obj["spec"].get("terminationGracePeriodSeconds", 30)


def check_delete(
    resource: Resource, obj: Body, uid: str | None, resource_version: str | None
) -> None:
    metadata = obj["metadata"]
    wanted = (
        ("UID", uid, metadata["uid"]),
        ("ResourceVersion", resource_version, metadata["resourceVersion"]),
    )
    for words, value, stored in wanted:
        if value is not None and value != stored:
            detail = (
                f"the {words} in the precondition ({value}) does not match the {words} in record "
                f"({stored}). The object might have been "
                + ("deleted and then recreated" if words == "UID" else "modified")
            )
            raise Conflict(resource, metadata["name"], detail, names_kind=True)


def is_new_spec(new: Body, old: Body) -> bool:
    rest = ("metadata", "status")
    return {k: v for k, v in new.items() if k not in rest} != {
        k: v for k, v in old.items() if k not in rest
    }
