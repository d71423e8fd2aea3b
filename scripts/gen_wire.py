"""Writes the wire's descriptors from the published definitions (a development-time step).

It runs in an interpreter that has google-cloud-aiplatform, google-api-python-client and this
package, and writes ``training.fds``, a binary FileDescriptorSet, for each dialect:

* aiplatform_v1: the message files of the package, as they are, and the few messages of Google's
  common files that its gRPC calls need.
* ml_v1: there are no published descriptors; the training schemas of the discovery document become
  proto2 messages (every field has presence).  Field numbers follow the sorted JSON names, enum
  numbers the printed order: neither is a wire format of anybody else.

``gen_fields.py`` then derives the parser's field tables from them.  Idempotent.
"""

import importlib
import json
import re
import runpy
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from google.protobuf import duration_pb2, empty_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

WIRE = Path(__file__).parent.parent / "src/trainshed/wire"

# ---- ml_v1: from the discovery document ----

ML_PACKAGE = "google.cloud.ml.v1"
SCHEMAS = ("Job", "ListJobsResponse")
STRUCT: Any = {"type": "object", "format": "struct"}
STRATEGY = ["STRATEGY_UNSPECIFIED", "ON_DEMAND", "LOW_COST"]
#: Fields that gcloud's own client knows and the document leaves out (docs/sources/gcloud.md 10.1).
BEYOND_THE_DOCUMENT: Mapping[str, Mapping[str, Any]] = {
    "Job": {"explanationInput": STRUCT, "explanationOutput": STRUCT},
    "TrainingInput": {"nasJobSpec": STRUCT},
    "TrainingOutput": {"nasJobOutput": STRUCT},
    "Scheduling": {
        "resilientToWorkerRestart": {"type": "boolean"},
        "strategy": {"type": "string", "enum": STRATEGY},
    },
}
SCALARS = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "byte": FieldDescriptorProto.TYPE_BYTES,
    "boolean": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
}
WELL_KNOWN = {
    "google-datetime": "google.protobuf.Timestamp",
    "google-duration": "google.protobuf.Duration",
    "struct": "google.protobuf.Struct",
}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def ml_v1() -> FileDescriptorSet:
    """The training schemas of the discovery document, as descriptors."""
    folder = files("googleapiclient").joinpath("discovery_cache", "documents", "ml.v1.json")
    schemas = json.loads(folder.read_text("utf-8"))["schemas"]
    document = FileDescriptorProto(
        name="trainshed/ml_v1/training.proto", package=ML_PACKAGE, syntax="proto2"
    )
    descriptors = FileDescriptorSet()
    for module in (duration_pb2, struct_pb2, timestamp_pb2):
        module.DESCRIPTOR.CopyToProto(descriptors.file.add())
        document.dependency.append(module.DESCRIPTOR.name)
    for name in sorted(_reached(schemas, (f"GoogleCloudMlV1__{s}" for s in SCHEMAS))):
        document.message_type.append(_message(_short(name), schemas[name]))
    descriptors.file.append(document)
    return descriptors


def _reached(schemas: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += re.findall(r'"\$ref": "(\w+)"', json.dumps(schemas[name]))
    return reached


def _short(schema_name: str) -> str:
    return schema_name.rpartition("_")[2]


def _message(name: str, schema: Mapping[str, Any]) -> DescriptorProto:
    message = DescriptorProto(name=name)
    properties = {**schema.get("properties", {}), **BEYOND_THE_DOCUMENT.get(name, {})}
    for number, (json_name, prop) in enumerate(sorted(properties.items()), start=1):
        field = FieldDescriptorProto(
            name=_HUMP.sub("_", json_name).lower(),
            json_name=json_name,
            number=number,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
        _set_type(message, field, prop)
        message.field.append(field)
    return message


def _set_type(message: DescriptorProto, field: FieldDescriptorProto, prop: Any) -> None:
    kind = prop.get("format") or prop.get("type")
    if kind == "array":
        field.label = FieldDescriptorProto.LABEL_REPEATED
        _set_type(message, field, prop["items"])
    elif "$ref" in prop:
        _set_message(field, f"{ML_PACKAGE}.{_short(prop['$ref'])}")
    elif "enum" in prop:
        field.type = FieldDescriptorProto.TYPE_ENUM
        field.type_name = f".{ML_PACKAGE}.{message.name}.{_enum(message, field, prop)}"
    elif "additionalProperties" in prop:
        field.label = FieldDescriptorProto.LABEL_REPEATED
        _set_message(field, f"{ML_PACKAGE}.{message.name}.{_text_map(message, field)}")
    elif kind in WELL_KNOWN:
        _set_message(field, WELL_KNOWN[kind])
    else:
        field.type = SCALARS[kind]


def _set_message(field: FieldDescriptorProto, full_name: str) -> None:
    field.type = FieldDescriptorProto.TYPE_MESSAGE
    field.type_name = f".{full_name}"


def _enum(message: DescriptorProto, field: FieldDescriptorProto, prop: Any) -> str:
    """The field's enum; fields of one message with the same values share it."""
    for enum in message.enum_type:
        if [value.name for value in enum.value] == prop["enum"]:
            return enum.name
    new = message.enum_type.add(name=field.json_name[0].upper() + field.json_name[1:])
    for number, name in enumerate(prop["enum"]):
        new.value.add(name=name, number=number)
    return new.name


def _text_map(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    entry = message.nested_type.add(name=field.name.title().replace("_", "") + "Entry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), start=1):
        entry.field.add(
            name=name,
            number=number,
            type=FieldDescriptorProto.TYPE_STRING,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
    return entry.name


# ---- aiplatform_v1: from the package ----

#: The resources; then messages whose files hold the requests and lists of the services.
AIPLATFORM_MESSAGES = (
    "CustomJob",
    "HyperparameterTuningJob",
    "TrainingPipeline",
    "CreateCustomJobRequest",
    "CreateTrainingPipelineRequest",
    "UploadModelRequest",
)
#: What operations and refusals are made of over gRPC, by the module that has it.
COMMON_MESSAGES: Mapping[str, tuple[str, ...]] = {
    "google.longrunning.operations_pb2": (
        "Operation",
        "GetOperationRequest",
        "ListOperationsRequest",
        "ListOperationsResponse",
        "CancelOperationRequest",
        "DeleteOperationRequest",
        "WaitOperationRequest",
    ),
    "google.rpc.error_details_pb2": ("BadRequest", "LocalizedMessage"),
}


def aiplatform_v1() -> FileDescriptorSet:
    """The package's own message files that training needs, dependencies first."""
    types = importlib.import_module("google.cloud.aiplatform_v1.types")
    files_by_name: dict[str, FileDescriptor] = {}

    def walk(file: FileDescriptor) -> None:
        for dependency in sorted(file.dependencies, key=lambda descriptor: descriptor.name):
            walk(dependency)
        files_by_name.setdefault(file.name, file)

    for name in AIPLATFORM_MESSAGES:
        walk(getattr(types, name).pb().DESCRIPTOR.file)
    result = FileDescriptorSet()
    for file in files_by_name.values():
        copy = result.file.add()
        file.CopyToProto(copy)
        _sort(copy)
    empty_pb2.DESCRIPTOR.CopyToProto(result.file.add())
    for module, names in COMMON_MESSAGES.items():
        _copy_messages(importlib.import_module(module).DESCRIPTOR, names, result.file.add())
    return result


def _copy_messages(file: FileDescriptor, names: Iterable[str], copy: FileDescriptorProto) -> None:
    """Take some messages of a file, without its services and the options that only they need."""
    copy.name, copy.package, copy.syntax = file.name, file.package, "proto3"
    needed = set()
    for name in names:
        message = file.message_types_by_name[name]
        message.CopyToProto(copy.message_type.add())
        needed |= {field.message_type.file.name for field in message.fields if field.message_type}
    copy.dependency.extend(sorted(needed - {file.name}))


def _sort(file: FileDescriptorProto) -> None:
    """Give a file one order: the package builds it in the order of a set."""
    file.message_type.sort(key=lambda message: message.name)
    file.enum_type.sort(key=lambda enum: enum.name)
    dependencies = sorted(file.dependency)
    del file.dependency[:]
    file.dependency.extend(dependencies)


def main() -> None:
    """Write the descriptors, then the field tables."""
    for dialect, build in {"ml_v1": ml_v1, "aiplatform_v1": aiplatform_v1}.items():
        content = build().SerializeToString(deterministic=True)
        (WIRE / dialect / "generated/training.fds").write_bytes(content)
        print(f"{dialect}/training.fds: {len(content)} bytes")
    runpy.run_path(str(Path(__file__).with_name("gen_fields.py")), run_name="__main__")


if __name__ == "__main__":
    main()
