"""Parses gRPC messages that programs send to Cloud Logging and Cloud Monitoring.

Only the fields of google.logging.v2 and google.monitoring.v3 that this server reads are declared;
other fields of a message are ignored.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from google.protobuf import struct_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import Error as JsonError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from trainshed.wire.logging_v2.read_messages import describe_messages
from trainshed.wire.logging_v2.written import UnreadEntries, WrittenLine, lines_of

#: (number, type) by field, as in log_entry.proto, logging.proto and metric_service.proto.
_DECLARED: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    "LogEntry": {
        "severity": (10, "int32"),
        "text_payload": (3, "string"),
        "json_payload": (6, ".google.protobuf.Struct"),
    },
    "WriteLogEntriesRequest": {"entries": (4, "[].written.LogEntry")},
    "CreateMetricDescriptorRequest": {"metric_descriptor": (2, "bytes")},
}


def lines_of_message(data: bytes) -> list[WrittenLine]:
    """Return the lines of a WriteLogEntriesRequest.  Raises UnreadEntries."""
    try:
        message = _message("WriteLogEntriesRequest", data)
        document = MessageToDict(message, descriptor_pool=_pool())
    except (DecodeError, JsonError, ValueError, TypeError) as error:
        raise UnreadEntries(f"The request is not a valid WriteLogEntriesRequest: {error}") from None
    return lines_of(document.get("entries"))


def metric_descriptor_of(data: bytes) -> bytes:
    """Return the MetricDescriptor of a request, which is the response; empty if malformed."""
    try:
        message: Any = _message("CreateMetricDescriptorRequest", data)
    except DecodeError:
        return b""
    return bytes(message.metric_descriptor)


def _message(name: str, data: bytes) -> Message:
    message = GetMessageClass(_pool().FindMessageTypeByName(f"written.{name}"))()
    message.ParseFromString(data)
    return message


@cache
def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    file = {
        "name": "trainshed/written.proto",
        "package": "written",
        "syntax": "proto3",
        "dependency": [struct_pb2.DESCRIPTOR.name],
        "messageType": describe_messages(_DECLARED),
    }
    pool.Add(ParseDict(file, FileDescriptorProto()))
    return pool
