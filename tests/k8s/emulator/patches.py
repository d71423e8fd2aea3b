"""The three ways to patch an object: JSON merge, JSON patch and strategic merge."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from .kinds import Resource
from .statuses import ApiError, BadRequest, UnsupportedMediaType

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
#: By which member strategic merges recognize the items of a list.
_MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_MERGED_VALUES = ("finalizers",)


def list_accepted(resource: Resource) -> tuple[str, ...]:
    if resource.is_custom:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def apply_patch(resource: Resource, content_type: str, obj: Any, patch: Any) -> Any:
    """The patched copy; UnsupportedMediaType for what a kind does not accept."""
    if content_type not in list_accepted(resource):
        raise UnsupportedMediaType(list_accepted(resource))
    return _PATCHERS[content_type](copy.deepcopy(obj), patch)


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes a member, anything but an object replaces."""
    if not isinstance(patch, dict):
        return patch
    result = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def patch_json(target: Any, operations: Any) -> Any:
    """RFC 6902; a test that fails or a path that is not there is Invalid (422)."""
    if not isinstance(operations, list):
        raise BadRequest("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    document = {"": target}
    for operation in operations:
        try:
            _perform(document, operation)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError):
            raise _refuse_operation(operation) from None
    return document[""]


def _refuse_operation(operation: Any) -> ApiError:
    name = operation.get("op") if isinstance(operation, dict) else operation
    path = operation.get("path") if isinstance(operation, dict) else ""
    message = (
        f"the server rejected our request due to an error in our request: {name} operation does "
        f"not apply: doc is missing path: {path}"
    )
    return ApiError(422, "Invalid", message, {})


def _perform(document: dict[str, Any], operation: Mapping[str, Any]) -> None:
    name, path = operation["op"], operation["path"]
    if name in ("move", "copy"):
        value = copy.deepcopy(_read(document, operation["from"]))
        if name == "move":
            _remove(document, operation["from"])
        _add(document, path, value)
    elif name == "test":
        if _read(document, path) != operation["value"]:
            raise ValueError(path)
    elif name == "remove":
        _remove(document, path)
    else:
        if name == "replace":
            _remove(document, path)
        _add(document, path, operation["value"])


def _split(path: str) -> list[str]:
    parts = path.split("/")
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def _step(value: Any, part: str) -> Any:
    return value[int(part)] if isinstance(value, list) else value[part]


def _read(document: Any, path: str) -> Any:
    value = document
    for part in _split(path):
        value = _step(value, part)
    return value


def _find_parent(document: Any, path: str) -> tuple[Any, str]:
    *parents, last = _split(path)
    value = document
    for part in parents:
        value = _step(value, part)
    return value, last


def _remove(document: Any, path: str) -> None:
    parent, last = _find_parent(document, path)
    del parent[int(last) if isinstance(parent, list) else last]


def _add(document: Any, path: str, value: Any) -> None:
    parent, last = _find_parent(document, path)
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else int(last), value)
    else:
        parent[last] = value


def merge_strategically(target: Any, patch: Any) -> Any:
    """As ``merge``, with lists of named items merged item by item."""
    if not isinstance(patch, dict) or patch.get("$patch") == "replace":
        return _strip(patch)
    result = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [item for item in result.get(name, []) if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            result[key] = _merge_list(key, result.get(key) or [], value)
        else:
            result[key] = merge_strategically(result.get(key), value)
    return result


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: row for key, row in value.items() if not key.startswith("$")}
    return value


def _merge_list(name: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if name in _MERGED_VALUES:
        return [*target, *(item for item in patch if item not in target)]
    key = _MERGE_KEYS.get(name)
    if key is None or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    rows = {item.get(key): item for item in target}
    for item in patch:
        if item.get("$patch") == "delete":
            rows.pop(item.get(key), None)
        else:
            rows[item.get(key)] = merge_strategically(rows.get(item.get(key)), item)
    return list(rows.values())


_PATCHERS: Mapping[str, Callable[[Any, Any], Any]] = {
    JSON_PATCH: patch_json,
    MERGE_PATCH: merge,
    STRATEGIC_PATCH: merge_strategically,
}
