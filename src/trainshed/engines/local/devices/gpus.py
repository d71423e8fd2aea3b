"""Assigns free GPUs to the replicas of a local run.

If there are too few, GPUs are assigned in rounds: each round gives one to every replica that needs
another one.  An incomplete round is dropped, since replicas of one training cluster that see
different hardware choose different collectives and hang.  ``leases`` takes the devices.

A job that requests no GPU may still use one: gcloud's own local train runs the trainer in the
caller's environment, in which the trainer sees every GPU.  So a single replica that requests no GPU
gets all free GPUs.  Several such replicas get none, since each would open the same GPUs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role

#: Order of the roles when devices are few: replicas that train come before their helpers.
_TIERS = (
    frozenset({Role.PRIMARY, Role.WORKER}),
    frozenset({Role.PARAMETER_SERVER, Role.REDUCER}),
    frozenset({Role.EVALUATOR}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """One GPU."""

    uuid: str
    """``GPU-...``, or ``MIG-...`` for an instance of a GPU that is divided."""
    name: str
    index: int = 0
    """The driver's number of the GPU."""
    minor: int | None = None
    """The number in the name of the device file, such as ``/dev/nvidia0``; None: not reported."""
    gpu_uuid: str = ""
    """The UUID of the GPU to which an instance belongs; empty for a whole GPU."""
    busy_pids: tuple[int, ...] = ()
    """The pids of processes that use the GPU, without this process."""
    memory_bytes: int | None = None
    """The size of its memory; None if the driver does not report it."""
    pci_bus_id: str = ""
    """The bus id, as nvidia-smi writes it; empty if the driver does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The devices of one replica, and the variables that name them.

    The variables name devices by UUID, so that the replica counts its own from 0.
    """

    uuids: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def takes_all(replicas: Sequence[ReplicaPlan]) -> bool:
    """Return whether a local run gets all free devices: its only replica requests none."""
    return len(replicas) == 1 and not replicas[0].gpu_count


def hidden_shares(
    replicas: Sequence[ReplicaPlan], devices: Sequence[GpuDevice]
) -> tuple[tuple[Share, ...], tuple[str, ...]]:
    """Return empty shares for replicas that request no device, and a note about the GPUs."""
    none = share((), machine_has_gpus=bool(devices))
    remark = f"this machine has {_describe_count(len(devices))}; the job asks for none"
    return (none,) * len(replicas), (remark,) if devices else ()


def deal(replicas: Sequence[ReplicaPlan], free: int) -> tuple[int, ...]:
    """Return how many of ``free`` devices each replica gets, in complete rounds."""
    counts = [0] * len(replicas)
    for tier in _TIERS:
        members = [i for i, replica in enumerate(replicas) if replica.role in tier]
        while waiting := [i for i in members if counts[i] < replicas[i].gpu_count]:
            if len(waiting) > free:
                break
            free -= len(waiting)
            for i in waiting:
                counts[i] += 1
    return tuple(counts)


def gets_none(replicas: Sequence[ReplicaPlan], counts: Sequence[int]) -> bool:
    """Return whether replicas request devices and none gets any: the job runs on the CPU."""
    return any(replica.gpu_count for replica in replicas) and not any(counts)


def shortage(
    replicas: Sequence[ReplicaPlan], counts: Sequence[int], *, machine: int, free: int
) -> str:
    """Return a line with the requested GPUs, and the GPUs that the replicas get instead."""
    total = sum(replica.gpu_count for replica in replicas)
    has = _HAS.get(machine, f"has {machine}")
    busy = f", {free} of them free" if machine > free and free < total else ""
    granted = sorted({c for c, r in zip(counts, replicas, strict=True) if r.gpu_count})
    result = "the replicas run on the CPU"
    if any(granted):
        result = f"each gets {' to '.join(map(str, dict.fromkeys((granted[0], granted[-1]))))}"
    request = _describe_request(replicas)
    return f"asked for {request} ({total} in all); this machine {has}{busy}: {result}"


_HAS = {0: "has none"}


def remarks(
    replicas: Sequence[ReplicaPlan], counts: Sequence[int], machine: int, free: int
) -> Iterator[str]:
    """Yield the note for a local run about its devices: at most one line."""
    if any(replica.gpu_count for replica in replicas):
        if any(c != r.gpu_count for c, r in zip(counts, replicas, strict=True)):
            yield shortage(replicas, counts, machine=machine, free=free)
    elif free < machine:
        result = f"gets {free}" if free else "runs on the CPU"
        count = _describe_count(machine)
        yield f"this machine has {count}, {free or 'none'} of them free: the job {result}"


def _describe_count(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"


def describe_busy(busy: Sequence[GpuDevice]) -> str:
    """Return a line that names the processes that use devices without a lock."""
    names = (f"{d.uuid} (process {', '.join(map(str, d.busy_pids))})" for d in busy)
    return f"other processes use GPUs: {', '.join(names)}"


def _describe_request(replicas: Sequence[ReplicaPlan]) -> str:
    """Return text such as ``4 NVIDIA_TESLA_T4 per master and worker``: one entry per request."""
    groups: dict[str, list[str]] = {}
    for replica in replicas:
        if replica.gpu_count:
            names = groups.setdefault(f"{replica.gpu_count} {replica.gpu_type or 'GPU'}", [])
            group = re.sub(r"(-replica)?-\d+$", "", replica.task_name)
            if group not in names:
                names.append(group)
    return ", ".join(f"{what} per {' and '.join(names)}" for what, names in groups.items())


def share(uuids: Sequence[str], *, machine_has_gpus: bool) -> Share:
    """Return the share with these devices; an empty one hides all GPUs of the machine."""
    names = ",".join(uuids)
    # container runtimes read NVIDIA_VISIBLE_DEVICES; "void" means no GPU there
    env = {"CUDA_VISIBLE_DEVICES": names, "NVIDIA_VISIBLE_DEVICES": names or "void"}
    return Share(uuids=tuple(uuids), env=env if machine_has_gpus else {})


def split_devices(
    devices: Sequence[GpuDevice], counts: Sequence[int], *, machine_has_gpus: bool
) -> tuple[Share, ...]:
    """Split the devices among the replicas; ``counts`` has the number for each replica."""
    rest = iter([device.uuid for device in devices])
    return tuple(
        share(tuple(islice(rest, count)), machine_has_gpus=machine_has_gpus) for count in counts
    )
