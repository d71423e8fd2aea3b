"""Schemas of core kinds, from the package ``kubernetes-validate`` where it is installed."""

import functools
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .kinds import Resource
from .schemas import list_errors

Tree = dict[str, Any]
#: The Kubernetes that the emulator is.
VERSION = "1.36"
_PACKAGE = "kubernetes_validate"
_GO_TYPES = {
    "array": "array",
    "boolean": "bool",
    "integer": "number",
    "null": "null",
    "number": "number",
    "object": "object",
    "string": "string",
}


def explain_absence() -> str:
    """Why core kinds have no schemas here; empty where they have."""
    if _find_folder() is None:
        return f"kubernetes-validate with Kubernetes {VERSION} is not installed"
    return ""


@functools.cache
def _find_folder() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "kubernetes-json-schema"
    rows = sorted(folder.glob(f"v{VERSION}*-local"))
    return rows[-1] if rows else None


@functools.cache
def load_core_schema(resource: Resource) -> Mapping[str, Any] | None:
    """The schema of a core kind with its references resolved; None without the package."""
    if resource.is_custom or _find_folder() is None:
        return None
    for name in _list_definition_names(resource):
        if name in _load_definitions():
            return _resolve(name)
    return None


def _list_definition_names(resource: Resource) -> Iterator[str]:
    group = resource.group.partition(".")[0] or "core"
    yield f"io.k8s.api.{group}.{resource.versions[0]}.{resource.kind}"


@functools.cache
def _load_definitions() -> Tree:
    """All types by their full names."""
    folder = _find_folder()
    assert folder is not None
    definitions: Tree = json.loads((folder / "_definitions.json").read_text("utf-8"))["$defs"]
    return definitions


@functools.cache
def _resolve(name: str) -> Tree:
    schema: Tree = _expand(_load_definitions()[name])
    if name.endswith((".Quantity", ".IntOrString")):
        return {"x-kubernetes-int-or-string": True}
    return schema


def _expand(schema: Any) -> Any:
    """A schema with definitions in place of references, and one type a value."""
    if isinstance(schema, list):
        return [_expand(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _resolve(schema["$ref"].rpartition("/")[2])
    row = {key: _expand_members(key, value) for key, value in schema.items()}
    if isinstance(row.get("type"), list):
        types = [text for text in row["type"] if text != "null"]
        row["nullable"] = len(types) < len(row["type"])
        row["type"] = types[0]
    if row.get("type") == "object" and not row.get("properties"):
        row.setdefault("additionalProperties", True)
    return row


def _expand_members(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: _expand(below) for name, below in value.items()}
    return _expand(value) if key in ("items", "additionalProperties") else value


def describe_type_error(resource: Resource, obj: Tree) -> str:
    """The first value of a wrong type, as the decoder of the API server names it; else empty."""
    schema = load_core_schema(resource)
    for error in list_errors(schema, obj) if schema else ():
        if error.reason == "FieldValueTypeInvalid" and error.value != "null":
            wanted = error.detail.partition("must be of type ")[2].partition(":")[0]
            return (
                f"json: cannot unmarshal {_GO_TYPES[error.value]} into Go struct field "
                f"{resource.kind}.{error.field} of type {wanted}"
            )
    return ""
