"""Writes ``fields.json`` for each dialect: what the parser must know of each message.

It is derived from the checked-in descriptors and ``coverage.toml`` (whose refusals it copies) and
needs protobuf alone, so that a change of coverage needs no SDK.  The parser reads it instead of the
descriptors because importing protobuf takes longer than judging a file.  Idempotent.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coverage_rows import FieldStatus, Rows, coverage, row_of
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

WIRE = Path(__file__).parent.parent / "src/trainshed/wire"
PACKAGE = {"ml_v1": "google.cloud.ml.v1", "aiplatform_v1": "google.cloud.aiplatform.v1"}
#: The messages that a request can be.
ROOTS = {
    "ml_v1": ("Job",),
    "aiplatform_v1": (
        "CustomJob",
        "HyperparameterTuningJob",
        "TrainingPipeline",
        "UploadModelRequest",
    ),
}

VERBATIM = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Struct": "struct",
    "google.protobuf.Value": "value",
    "google.protobuf.ListValue": "list",
    "google.protobuf.Any": "struct",
    "google.protobuf.BoolValue": "bool",
    "google.protobuf.Int32Value": "int32",
}
KINDS: dict[int, str] = {
    number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()
}


def fields(dialect: str, descriptors: FileDescriptorSet, rows: Rows) -> dict[str, Any]:
    """What the parser must know: enums and messages that the dialect's roots reach."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptors.file:
        pool.Add(file)
    messages: dict[str, Any] = {}
    enums: dict[str, Any] = {}
    waiting = [pool.FindMessageTypeByName(f"{PACKAGE[dialect]}.{name}") for name in ROOTS[dialect]]
    while waiting:
        message = waiting.pop()
        name = _local(dialect, message.full_name)
        if name in messages:
            continue
        messages[name] = {f.json_name: _field(dialect, name, f, rows) for f in message.fields}
        for field in message.fields:
            waiting += _inner(field)
            if field.enum_type:
                values = {value.name: value.number for value in field.enum_type.values}
                enums[_local(dialect, field.enum_type.full_name)] = values
    return {"enums": enums, "messages": messages}


def _local(dialect: str, full_name: str) -> str:
    return full_name.removeprefix(f"{PACKAGE[dialect]}.")


def _inner(field: FieldDescriptor) -> Iterator[Descriptor]:
    message = field.message_type
    if message and message.GetOptions().map_entry:
        yield from _inner(message.fields_by_name["value"])
    elif message and message.full_name not in VERBATIM:
        yield message


def _field(dialect: str, message: str, field: FieldDescriptor, rows: Rows) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": field.name.rstrip("_"), **_kind(dialect, field)}
    oneof = field.containing_oneof
    if oneof and len(oneof.fields) > 1:
        entry["oneof"] = oneof.name
    row = row_of(rows, message, field.json_name)
    if row and row.status is FieldStatus.REFUSED:
        entry["refused"] = row.sentence
    if row and row.is_output:
        entry["output"] = True
    return entry


def _kind(dialect: str, field: FieldDescriptor) -> dict[str, Any]:
    message = field.message_type
    if message and message.GetOptions().map_entry:
        return {"kind": "map", "value": _kind(dialect, message.fields_by_name["value"])}
    entry: dict[str, Any] = {"kind": KINDS[field.type]}
    typed = message or field.enum_type
    if typed and typed.full_name in VERBATIM:
        entry["kind"] = VERBATIM[typed.full_name]
    elif typed:
        entry["type"] = _local(dialect, typed.full_name)
    if field.is_repeated:
        entry["repeated"] = True
    return entry


def read_descriptors(dialect: str) -> FileDescriptorSet:
    """The checked-in descriptors."""
    path = WIRE / dialect / "generated/training.fds"
    return FileDescriptorSet.FromString(path.read_bytes())


def fields_text(dialect: str, descriptors: FileDescriptorSet) -> str:
    """The text of ``fields.json``."""
    document = fields(dialect, descriptors, coverage(dialect))
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Write the field tables."""
    for dialect in PACKAGE:
        text = fields_text(dialect, read_descriptors(dialect))
        (WIRE / dialect / "generated/fields.json").write_text(text, encoding="utf-8")
        print(f"{dialect}/fields.json: {len(json.loads(text)['messages'])} messages")


if __name__ == "__main__":
    main()
