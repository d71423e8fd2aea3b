"""Schemas of kinds: which fields are there, their defaults, and whether values are acceptable.

Custom kinds have the schemas of their CustomResourceDefinitions (``tests/k8s/crds``); core
kinds those of the package ``kubernetes-validate``, where it is installed.  Rules in CEL are not
evaluated, but for ``self == oldSelf``.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .kinds import Resource
from .statuses import NO_VALUE, FieldError

CRDS = Path(__file__).parents[1] / "crds"
Tree = Mapping[str, Any]
BLOCKING = (
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTypeInvalid",
)
UNCHECKED = FieldError(
    "<nil>",
    "FieldValueInvalid",
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    None,
)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    name: str
    type: str
    path: str
    priority: int = 0


@functools.cache
def load_definition(resource: Resource) -> Tree:
    """The CustomResourceDefinition of a kind."""
    text = (CRDS / f"{resource.group}_{resource.plural}.yaml").read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definition: Tree = yaml.load(text, loader)  # noqa: S506 - both loaders are the safe ones
    return definition


def _find_version(resource: Resource, version: str) -> Tree:
    for row in load_definition(resource)["spec"]["versions"]:
        if row["name"] == version:
            return row
    raise KeyError(version)


@functools.cache
def load_schema(resource: Resource, version: str) -> Tree | None:
    """The schema of one version of a custom kind; None for a core kind."""
    if not resource.is_custom:
        return None
    schema: Tree = _find_version(resource, version)["schema"]["openAPIV3Schema"]
    return schema


def list_columns(resource: Resource, version: str) -> list[PrinterColumn]:
    """What ``kubectl get`` shows of a custom kind besides its name."""
    rows = _find_version(resource, version).get("additionalPrinterColumns", ())
    return [
        PrinterColumn(row["name"], row["type"], row["jsonPath"], row.get("priority", 0))
        for row in rows
    ]


def prune(schema: Tree, value: Any, path: str = "") -> Iterator[str]:
    """Remove fields that a schema does not have and give their paths."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from prune(schema.get("items", {}), item, f"{path}[{index}]")
    if not isinstance(value, dict) or not schema:
        return
    properties = schema.get("properties", {})
    more = schema.get("additionalProperties")
    keeps_all = bool(more is True or schema.get("x-kubernetes-preserve-unknown-fields"))
    for key in list(value):
        below = f"{path}.{key}" if path else key
        if key in properties:
            yield from prune(properties[key], value[key], below)
        elif isinstance(more, Mapping):
            yield from prune(more, value[key], below)
        elif not keeps_all and (properties or schema.get("type") == "object"):
            del value[key]
            yield below


def prune_object(schema: Tree, obj: dict[str, Any]) -> list[str]:
    """As ``prune`` for a whole object; its metadata is the API server's, not the schema's."""
    paths: list[str] = []
    properties = schema.get("properties", {})
    for key in list(obj):
        if key in ("apiVersion", "kind", "metadata"):
            continue
        if key not in properties:
            del obj[key]
            paths.append(key)
        else:
            paths += prune(properties[key], obj[key], key)
    return paths


def set_defaults(schema: Tree, value: Any) -> None:
    """Add the defaults of absent fields, also in lists and below new defaults."""
    if isinstance(value, list):
        for item in value:
            set_defaults(schema.get("items", {}), item)
    if not isinstance(value, dict):
        return
    properties = schema.get("properties", {})
    for key, below in properties.items():
        if key not in value and "default" in below:
            value[key] = below["default"]
        if key in value:
            set_defaults(below, value[key])
    if isinstance(more := schema.get("additionalProperties"), Mapping):
        for key in value.keys() - properties.keys():
            set_defaults(more, value[key])


def validate(schema: Tree, obj: Mapping[str, Any]) -> list[FieldError]:
    """Everything that a schema refuses, with the note that rules were not checked after it."""
    errors = list(list_errors(schema, obj))
    if any(error.reason in BLOCKING for error in errors):
        errors.append(UNCHECKED)
    return errors


def list_errors(schema: Tree, obj: Mapping[str, Any]) -> Iterator[FieldError]:
    """Everything that a schema refuses of an object's members, but for its metadata."""
    for key, below in schema.get("properties", {}).items():
        if key not in ("apiVersion", "kind", "metadata") and key in obj:
            yield from _validate(below, obj[key], key)


def compare_immutable(schema: Tree, new: Any, old: Any, path: str = "") -> Iterator[FieldError]:
    """Fields that the rule ``self == oldSelf`` fixes and that differ."""
    if isinstance(new, dict) and isinstance(old, dict):
        for rule in schema.get("x-kubernetes-validations", ()):
            if rule["rule"] == "self == oldSelf" and new != old:
                yield FieldError(path, "FieldValueInvalid", rule["message"], NO_VALUE)
        for key, below in schema.get("properties", {}).items():
            if key in new and key in old and key != "metadata":
                child = f"{path}.{key}" if path else key
                yield from compare_immutable(below, new[key], old[key], child)


def _validate(schema: Tree, value: Any, path: str) -> Iterator[FieldError]:
    if not schema or (value is None and schema.get("nullable")):
        return
    if wrong := _check_type(schema, value, path):
        yield wrong
        return
    if "enum" in schema and value not in schema["enum"]:
        shown = ", ".join(f'"{word}"' for word in schema["enum"])
        yield FieldError(path, "FieldValueNotSupported", f"supported values: {shown}", value)
    if isinstance(value, dict):
        yield from _validate_members(schema, value, path)
    elif isinstance(value, list):
        yield from _validate_items(schema, value, path)
    else:
        yield from _validate_scalar(schema, value, path)


def _check_type(schema: Tree, value: Any, path: str) -> FieldError | None:
    wanted = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        types: tuple[type, ...] = (int, float, str)
    elif wanted in _TYPES:
        types = _TYPES[wanted]
    else:
        return None
    is_bool_as_number = isinstance(value, bool) and bool not in types
    if isinstance(value, types) and not is_bool_as_number:
        return None
    shown = "null" if value is None else _name_type(value)
    detail = f'{path} in body must be of type {wanted or "integer,string"}: "{shown}"'
    return FieldError(path, "FieldValueTypeInvalid", detail, shown)


def _name_type(value: Any) -> str:
    return next(name for name, types in _TYPES.items() if type(value) in types)


def _validate_members(schema: Tree, value: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for name in schema.get("required", ()):
        if name not in value:
            yield FieldError(f"{path}.{name}", "FieldValueRequired")
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        detail = f"{path} in body should have at most {schema['maxProperties']} properties"
        yield FieldError(path, "FieldValueInvalid", detail, len(value))
    properties = schema.get("properties", {})
    more = schema.get("additionalProperties")
    for key in sorted(value):
        below = properties.get(key, more if isinstance(more, Mapping) else {})
        yield from _validate(below, value[key], f"{path}.{key}")


def _validate_items(schema: Tree, value: Sequence[Any], path: str) -> Iterator[FieldError]:
    for words, limit, is_wrong in (
        ("at least", schema.get("minItems"), lambda n: len(value) < n),
        ("at most", schema.get("maxItems"), lambda n: len(value) > n),
    ):
        if limit is not None and is_wrong(limit):
            detail = f"{path} in body should have {words} {limit} items"
            yield FieldError(path, "FieldValueInvalid", detail, len(value))
    yield from _find_duplicates(schema, value, path)
    for index, item in enumerate(value):
        yield from _validate(schema.get("items", {}), item, f"{path}[{index}]")


def _find_duplicates(schema: Tree, value: Sequence[Any], path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("map", "set"):
        return
    earlier: list[Any] = []
    for index, item in enumerate(value):
        keys = schema.get("x-kubernetes-list-map-keys", ())
        is_map = kind == "map" and isinstance(item, dict)
        identity = {key: item[key] for key in keys if key in item} if is_map else item
        if identity in earlier:
            yield FieldError(f"{path}[{index}]", "FieldValueDuplicate", "", identity)
        earlier.append(identity)


def _validate_scalar(schema: Tree, value: Any, path: str) -> Iterator[FieldError]:
    texts = []
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            texts.append(f"should match '{schema['pattern']}'")
        if len(value) < schema.get("minLength", 0):
            texts.append(f"should be at least {schema['minLength']} chars long")
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            detail = f"may not be more than {schema['maxLength']} bytes"
            yield FieldError(path, "FieldValueTooLong", detail, NO_VALUE)
    elif isinstance(value, int | float):
        if "minimum" in schema and value < schema["minimum"]:
            texts.append(f"should be greater than or equal to {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            texts.append(f"should be less than or equal to {schema['maximum']}")
    for text in texts:
        yield FieldError(path, "FieldValueInvalid", f"{path} in body {text}", value)
