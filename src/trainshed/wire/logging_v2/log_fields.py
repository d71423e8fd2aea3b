"""The fields of a LogEntry that a filter can name, and how to read their values.

A path that does not exist in any LogEntry is refused, as Google does.  A payload's field or a label
that an entry lacks is missing: no comparison with it holds.  A field of LogEntry that is never set
here, such as ``httpRequest.status``, has its default value.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.wire.logging_v2.log_entry import RESOURCE_TYPE, LogEntry


class FieldKind(enum.Enum):
    """The way to compare the values of a field."""

    VALUE = enum.auto()
    """JSON values: texts without regard to case, numbers as numbers."""
    NAME = enum.auto()
    """The name of a job, which may differ from another job's by case alone."""
    TIME = enum.auto()
    SEVERITY = enum.auto()
    UNSET = enum.auto()
    """A field of LogEntry that no entry here has."""


Read = Callable[[LogEntry], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class LogField:
    """A field: ``read`` gives its values in an entry, none where it is missing."""

    kind: FieldKind
    read: Read
    in_line: bool = False
    """Whether a text value of it is among the bytes of the stored line."""


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
    """The field of a path; None where no LogEntry has it.  ``json_payload`` is jsonPayload."""
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
    """Users write ``labels.a.b`` for the label ``a.b``."""
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
    """Return the values below keys; each element of a list is looked into."""
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
