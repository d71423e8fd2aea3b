"""Loads the protobuf messages of the dialects on first use, for clients that send protobuf.

A private pool separates them from the messages of an SDK in the same process
(docs/sources/vertex.md 9.1).
"""

from functools import cache
from importlib.resources import files

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from trainshed.wire.logging_v2.read_messages import file_of_messages


def message_class(full_name: str) -> type[Message]:
    """Return the class of a message, such as ``google.cloud.ml.v1.Job``.  Raises KeyError."""
    return GetMessageClass(pool().FindMessageTypeByName(full_name))


@cache
def pool() -> DescriptorPool:
    """Return the pool of all messages; code that resolves an ``Any`` needs it."""
    pool, names = DescriptorPool(), set()
    for dialect in ("ml_v1", "aiplatform_v1"):
        path = files(f"trainshed.wire.{dialect}").joinpath("generated", "training.fds")
        for file in FileDescriptorSet.FromString(path.read_bytes()).file:
            if file.name not in names:
                names.add(file.name)
                pool.Add(file)
    pool.Add(file_of_messages())
    return pool
