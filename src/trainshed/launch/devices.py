"""The accelerators of a replica, as an engine is asked for them (R10).

Engines here give NVIDIA GPUs.  A TPU is a machine that only Google has: the replica runs without.
"""

from collections.abc import Iterator
from typing import Final

from trainshed.launch.names import role_word
from trainshed.model.job import ReplicaGroup

#: Every GPU type of both dialects begins so (contracts/gcloud.md 10).
GPU_PREFIX: Final = "NVIDIA_"

#: How both dialects write "none".
UNSPECIFIED: Final = "ACCELERATOR_TYPE_UNSPECIFIED"


def gpus_of(group: ReplicaGroup) -> tuple[int, str | None]:
    """Give the count and the type of GPUs on each replica of a group; (0, None) for none."""
    count, kind = _asked(group)
    return (count, kind) if count and kind and kind.startswith(GPU_PREFIX) else (0, None)


def missing_devices(group: ReplicaGroup) -> Iterator[str]:
    """Say which devices of a group no engine here can give."""
    count, kind = _asked(group)
    if count and kind and not kind.startswith(GPU_PREFIX):
        yield (
            f"Each {role_word(group.role)} replica asked for {count} {kind}; "
            "there are none here, and it runs without."
        )


def _asked(group: ReplicaGroup) -> tuple[int, str | None]:
    accelerator = group.accelerator
    if accelerator is None or accelerator.type == UNSPECIFIED:
        return 0, None
    return accelerator.count or 0, accelerator.type
