"""The dialects' protobuf messages, for bytes: loaded on use, because parsing JSON needs none.

A private pool keeps them apart from those of an SDK in the same process
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
    """The class of ``google.cloud.ml.v1.Job`` and the like.  Raises KeyError for any other."""
    return GetMessageClass(pool().FindMessageTypeByName(full_name))


@cache
def pool() -> DescriptorPool:
    """All messages; what resolves an ``Any`` must be given it."""
    pool, names = DescriptorPool(), set()
    for dialect in ("ml_v1", "aiplatform_v1"):
        path = files(f"trainshed.wire.{dialect}").joinpath("generated", "training.fds")
        for file in FileDescriptorSet.FromString(path.read_bytes()).file:
            if file.name not in names:
                names.add(file.name)
                pool.Add(file)
    pool.Add(file_of_messages())
    return pool
