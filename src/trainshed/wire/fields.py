"""The field tables: the fields of each message of a dialect.

They are read from ``generated/fields.json``, which is derived from the descriptors and from
``coverage.toml``; a test compares them.  Reading the descriptors needs protobuf, and importing
protobuf takes longer than checking a file.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

#: String fields that also accept numbers and booleans, which become strings.  The SDK sends such
#: values (docs/sources/vertex.md 4.4), although protobuf's JSON parser refuses them
#: (docs/sources/vertex.md 9.3).
LOOSE_TEXT: Final = frozenset(
    {
        "ContainerSpec.args",
        "EnvVar.value",
        "PythonPackageSpec.args",
        "ReplicaConfig.containerArgs",
        "TrainingInput.args",
    }
)

#: Enums whose unknown names are accepted here: the catalog has the list of accelerators, and an
#: administrator may have added some.
OPEN_ENUMS: Final = frozenset({"AcceleratorConfig.Type", "AcceleratorType"})

#: Whether the numbers of a dialect's enum values are published.
NUMBERED_ENUMS: Final = {"ml_v1": False, "aiplatform_v1": True}

#: Dialects whose enum names Google accepts in any case, and with hyphens instead of underscores.
ANY_CASE_ENUMS: Final = frozenset({"ml_v1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldInfo:
    """One field.  ``kind`` selects its parser; ``type`` is the name of its message or enum."""

    name: str
    json_name: str
    kind: str
    type: str = ""
    is_repeated: bool = False
    oneof: str = ""
    refused: str = ""
    """Why the field is refused; empty if it is accepted."""
    is_output: bool = False
    """Only the server writes it; the value in a request is ignored."""
    value: "FieldInfo | None" = None
    """For a map, the type of its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageInfo:
    """One message: its fields by key in camelCase and snake_case, and its oneofs."""

    name: str
    by_key: Mapping[str, FieldInfo]
    oneofs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def fields(self) -> Iterable[FieldInfo]:
        return {info.json_name: info for info in self.by_key.values()}.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumInfo:
    """One enum.  ``by_number`` is empty if the numbers of its values are not published."""

    names: tuple[str, ...]
    by_number: Mapping[int, str] = field(default_factory=dict)
    is_any_case: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All messages and enums of a dialect's requests."""

    messages: Mapping[str, MessageInfo]
    enums: Mapping[str, EnumInfo]


@cache
def table(dialect: str) -> Table:
    """Return the table of a dialect's package, such as ``ml_v1``; read once per process."""
    path = files(f"trainshed.wire.{dialect}").joinpath("generated", "fields.json")
    raw = json.loads(path.read_text("utf-8"))
    numbered = NUMBERED_ENUMS[dialect]
    return Table(
        messages={name: _message(name, rows) for name, rows in raw["messages"].items()},
        enums={
            name: _enum(values, numbered=numbered, any_case=dialect in ANY_CASE_ENUMS)
            for name, values in raw["enums"].items()
        },
    )


def _enum(values: Mapping[str, int], *, numbered: bool, any_case: bool) -> EnumInfo:
    names = tuple(sorted(values, key=values.__getitem__))
    by_number = {number: name for name, number in values.items()} if numbered else {}
    return EnumInfo(names=names, by_number=by_number, is_any_case=any_case)


def _message(name: str, rows: Mapping[str, Any]) -> MessageInfo:
    infos = [_field(name, json_name, row) for json_name, row in rows.items()]
    oneofs: dict[str, tuple[str, ...]] = {}
    for info in infos:
        if info.oneof:
            oneofs[info.oneof] = (*oneofs.get(info.oneof, ()), info.json_name)
    by_key = {key: info for info in infos for key in (info.json_name, info.name)}
    return MessageInfo(name=name, by_key=by_key, oneofs=oneofs)


def _field(message: str, json_name: str, row: Mapping[str, Any]) -> FieldInfo:
    inner = row.get("value")
    return FieldInfo(
        name=row.get("name", json_name),
        json_name=json_name,
        kind=_kind(f"{message}.{json_name}", row),
        type=row.get("type", ""),
        is_repeated=row.get("repeated", False),
        oneof=row.get("oneof", ""),
        refused=row.get("refused", ""),
        is_output=row.get("output", False),
        value=_field(message, json_name, inner) if inner else None,
    )


def _kind(path: str, row: Mapping[str, Any]) -> str:
    if path in LOOSE_TEXT:
        return "loose text"
    if row.get("type") in OPEN_ENUMS:
        return "open enum"
    kind: str = row["kind"]
    return kind
