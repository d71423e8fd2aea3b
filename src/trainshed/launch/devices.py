"""The accelerators that a replica requests of an engine.

Engines provide NVIDIA GPUs.  Only Google has TPUs: the replica runs without one.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from trainshed.launch.names import role_word
from trainshed.model.job import ReplicaGroup
from trainshed.model.roles import Role

#: The prefix of every GPU type of both dialects (docs/sources/gcloud.md 10).
GPU_PREFIX: Final = "NVIDIA_"

#: AI Platform's machine type for a Cloud TPU node; Vertex AI calls its own ``cloud-tpu``.
_TPU_NODE: Final = "cloud_tpu"

#: The accelerator type that means "none" in both dialects.
UNSPECIFIED: Final = "ACCELERATOR_TYPE_UNSPECIFIED"


def gpus_of(group: ReplicaGroup) -> tuple[int, str | None]:
    """Return the count and the type of GPUs of each replica of a group; (0, None) without."""
    count, kind = _devices_of(group)
    return (count, kind) if count and kind and kind.startswith(GPU_PREFIX) else (0, None)


def is_tpu_worker(role: Role, machine_type: str | None) -> bool:
    """Whether a group is the Cloud TPU node of a master, as in the scale tier BASIC_TPU.

    A TPU node runs TensorFlow's own server, which the program on the master drives by gRPC, and no
    program of the job (docs/decisions/0074, TPU workers).  A master ``cloud_tpu`` runs the program.
    """
    return machine_type == _TPU_NODE and role is not Role.PRIMARY


def tpu_worker_notes(groups: Iterable[ReplicaGroup]) -> Iterator[str]:
    """Yield a note for each group of TPU workers: they are not started."""
    for group in groups:
        if group.count and is_tpu_worker(group.role, group.machine_type):
            yield (
                f"The {role_word(group.role)} of machine type {_TPU_NODE} is not started: at "
                "Google it runs no program of the job either, and no engine here has TPUs."
            )


def missing_devices(group: ReplicaGroup) -> Iterator[str]:
    """Yield the note on accelerators of a group that no engine has."""
    count, kind = _devices_of(group)
    if count and kind and not kind.startswith(GPU_PREFIX):
        yield (
            f"Each {role_word(group.role)} replica requests {count} {kind}; "
            "no engine here has any, so it runs without them."
        )


def _devices_of(group: ReplicaGroup) -> tuple[int, str | None]:
    accelerator = group.accelerator
    if accelerator is None or accelerator.type == UNSPECIFIED:
        return 0, None
    return accelerator.count or 0, accelerator.type
