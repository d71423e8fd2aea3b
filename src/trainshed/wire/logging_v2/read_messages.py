"""The messages of LoggingServiceV2/ListLogEntries, declared by hand.

They have only the fields that this server reads and writes, with the numbers of log_entry.proto,
logging.proto, monitored_resource.proto and log_severity.proto.  Google's descriptors would require
a dozen more files.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.json_format import ParseDict

from trainshed.wire.logging_v2.comparing import SEVERITY_RANKS

PACKAGE: Final = "google.logging.v2"
_TIME: Final = ".google.protobuf.Timestamp"
_STRUCT: Final = ".google.protobuf.Struct"
_ENTRY: Final = f".{PACKAGE}.LogEntry"
_RESOURCE: Final = f".{PACKAGE}.MonitoredResource"
_SEVERITY: Final = f".{PACKAGE}.LogSeverity"

#: (number, type) by field; the prefix ``[]`` means a list, ``{}`` a map of strings.
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    "ListLogEntriesRequest": {
        "project_ids": (1, "[]string"),
        "filter": (2, "string"),
        "order_by": (3, "string"),
        "page_size": (4, "int32"),
        "page_token": (5, "string"),
        "resource_names": (8, "[]string"),
    },
    "ListLogEntriesResponse": {"entries": (1, f"[]{_ENTRY}"), "next_page_token": (2, "string")},
    "LogEntry": {
        "text_payload": (3, "string"),
        "insert_id": (4, "string"),
        "json_payload": (6, _STRUCT),
        "resource": (8, _RESOURCE),
        "timestamp": (9, _TIME),
        "severity": (10, _SEVERITY),
        "labels": (11, "{}"),
        "log_name": (12, "string"),
        "receive_timestamp": (24, _TIME),
    },
    "MonitoredResource": {"type": (1, "string"), "labels": (2, "{}")},
}


def file_of_messages() -> FileDescriptorProto:
    """Return the messages as a file for a descriptor pool that has protobuf's own types."""
    severities = [{"name": name, "number": rank} for name, rank in SEVERITY_RANKS.items()]
    document = {
        "name": "trainshed/logging_v2/reading.proto",
        "package": PACKAGE,
        "syntax": "proto3",
        "dependency": [struct_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name],
        "messageType": describe_messages(_MESSAGES),
        "enumType": [{"name": "LogSeverity", "value": severities}],
    }
    return ParseDict(document, FileDescriptorProto())


def describe_messages(
    messages: Mapping[str, Mapping[str, tuple[int, str]]],
) -> list[dict[str, Any]]:
    """Return the descriptors, as JSON, of messages that are declared as ``_MESSAGES`` is."""
    return [_message(name, fields) for name, fields in messages.items()]


def _message(name: str, fields: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    maps = [field for field, (_, kind) in fields.items() if kind == "{}"]
    return {
        "name": name,
        "field": [_field(name, field, *declared) for field, declared in fields.items()],
        "nestedType": [_map_entry(field) for field in maps],
    }


def _field(message: str, name: str, number: int, kind: str) -> dict[str, Any]:
    label = "LABEL_REPEATED" if kind.startswith(("[]", "{}")) else "LABEL_OPTIONAL"
    kind = kind.removeprefix("[]")
    if kind == "{}":
        kind = f".{PACKAGE}.{message}.{_entry_name(name)}"
    declared = {"name": name, "number": number, "label": label}
    if kind == _SEVERITY:
        return {**declared, "type": "TYPE_ENUM", "typeName": kind}
    if kind.startswith("."):
        return {**declared, "type": "TYPE_MESSAGE", "typeName": kind}
    return {**declared, "type": f"TYPE_{kind.upper()}"}


def _map_entry(field: str) -> dict[str, Any]:
    parts = [
        {"name": part, "number": number, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING"}
        for number, part in enumerate(("key", "value"), start=1)
    ]
    return {"name": _entry_name(field), "field": parts, "options": {"mapEntry": True}}


def _entry_name(field: str) -> str:
    return f"{field.title()}Entry"
