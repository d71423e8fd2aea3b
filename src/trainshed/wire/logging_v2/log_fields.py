"""Finds the fields of a LogEntry that a filter names, and reads their values.

A path that no LogEntry can have is refused, as at Google.  A comparison with a label or a field of
the payload that an entry lacks is false.  A field of LogEntry that this server never sets, such as
``httpRequest.status``, has its default value.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.wire.logging_v2.log_entry import RESOURCE_TYPE, LogEntry


class FieldKind(enum.Enum):
    """How the values of a field are compared."""

    VALUE = enum.auto()
    """JSON values: texts are compared without case, numbers as numbers."""
    NAME = enum.auto()
    """A name, compared with case: the names of two jobs may differ only in case."""
    TIME = enum.auto()
    SEVERITY = enum.auto()
    UNSET = enum.auto()
    """A field of LogEntry that this server never sets."""


Read = Callable[[LogEntry], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class LogField:
    """A field: ``read`` returns its values in an entry, none if it is missing."""

    kind: FieldKind
    read: Read
    in_line: bool = False
    """Whether the bytes of the stored line contain the field's text values."""


FIELD_NAMES: Final = (
    "timestamp, severity, textPayload, jsonPayload.NAME, resource.type, resource.labels.NAME, "
    'labels."NAME", logName, insertId'
)

_UNSET_MESSAGES: Final = frozenset(
    {
        "httprequest",
        "operation",
        "sourcelocation",
        "split",
        "metadata",
        "errorgroups",
        "apphub",
        "apphubdestination",
        "apphubsource",
        "otel",
    }
)
_UNSET_VALUES: Final = frozenset({"trace", "spanid", "tracesampled"})


def find_field(path: Sequence[str]) -> LogField | None:
    """Return the field of a path in either key case; None if no LogEntry has it."""
    name, *keys = path
    plain = name.replace("_", "").lower()
    if plain in _NESTED:
        return _NESTED[plain](keys)
    if plain in _UNSET_MESSAGES or (plain in _UNSET_VALUES and not keys):
        return LogField(FieldKind.UNSET, _read_nothing)
    return None if keys else _SINGLE.get(plain)


def _payload_field(keys: Sequence[str]) -> LogField:
    if list(keys) == ["message"]:
        return LogField(FieldKind.VALUE, _read_message, in_line=True)
    return LogField(FieldKind.VALUE, lambda entry: select(entry.payload, keys), in_line=True)


def _resource_field(keys: Sequence[str]) -> LogField | None:
    match keys:
        case []:
            return LogField(FieldKind.VALUE, _read_resource)
        case ["type"]:
            return LogField(FieldKind.VALUE, lambda _: (RESOURCE_TYPE,))
        case ["labels", "job_id"]:
            return LogField(FieldKind.NAME, lambda entry: (entry.job_id,))
        case ["labels", "task_name"]:
            return LogField(FieldKind.VALUE, lambda entry: (entry.line.task_name,), in_line=True)
        case ["labels", *rest] if len(rest) <= 1:
            return LogField(FieldKind.VALUE, lambda entry: select(entry.resource_labels, rest))
    return None


def _labels_field(keys: Sequence[str]) -> LogField | None:
    """Return the field of a label; users write ``labels.a.b`` for the label ``a.b``."""
    key = [".".join(keys)] if keys else []
    return LogField(FieldKind.VALUE, lambda entry: select(entry.labels, key))


def _unset_payload(keys: Sequence[str]) -> LogField:
    del keys
    return LogField(FieldKind.VALUE, _read_nothing)


def _read_message(entry: LogEntry) -> Sequence[Any]:
    text = entry.line.text
    return (entry.payload["message"] if text.startswith("{") else text,)


def _read_resource(entry: LogEntry) -> Sequence[Any]:
    return ({"type": RESOURCE_TYPE, "labels": entry.resource_labels},)


def _read_nothing(entry: LogEntry) -> Sequence[Any]:
    del entry
    return ()


def select(value: Any, keys: Sequence[str]) -> Sequence[Any]:
    """Return the values at a path of keys; lists on the path contribute all their elements."""
    values = [value]
    for key in keys:
        values = [
            item[key] for item in _elements(values) if isinstance(item, Mapping) and key in item
        ]
    return list(_elements(values)) if keys else values


def _elements(values: Sequence[Any]) -> Sequence[Any]:
    flat: list[Any] = []
    for value in values:
        flat += _elements(value) if isinstance(value, list) else [value]
    return flat


_NESTED: Final[Mapping[str, Callable[[Sequence[str]], LogField | None]]] = {
    "jsonpayload": _payload_field,
    "protopayload": _unset_payload,
    "resource": _resource_field,
    "labels": _labels_field,
}
_SINGLE: Final[Mapping[str, LogField]] = {
    "timestamp": LogField(FieldKind.TIME, lambda entry: (entry.line.stamp_ns,)),
    "receivetimestamp": LogField(FieldKind.TIME, lambda entry: (entry.line.stamp_ns,)),
    "severity": LogField(FieldKind.SEVERITY, lambda entry: (entry.line.severity,)),
    "textpayload": LogField(FieldKind.VALUE, _read_message, in_line=True),
    "logname": LogField(FieldKind.VALUE, lambda entry: (entry.log_name,)),
    "insertid": LogField(FieldKind.NAME, lambda entry: (entry.insert_id,)),
}
