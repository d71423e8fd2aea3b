"""Gives each replica GPUs of its own, and never one that anybody else on this machine uses (R10).

A device is free when no other job holds its lock (``device_locks``: all jobs of all users) and no
process of anybody else computes on it, as NVML told just before.

When there are too few, devices are dealt in rounds, one to every replica that still wants one, and
a round that cannot be completed is not dealt: replicas of one training cluster that see different
hardware choose different collectives and hang.

A job that asks for none is not a job that must have none: gcloud's own local train runs the trainer
in the caller's environment, where it sees every GPU.  So a single replica that asks for none gets
all that are free.  Several get none, since each would take hold of the same ones.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.engines.local.devices import locks as device_locks
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role

#: Who is served first when devices are few: those that train together come before their helpers.
_TIERS = (
    frozenset({Role.PRIMARY, Role.WORKER}),
    frozenset({Role.PARAMETER_SERVER, Role.REDUCER}),
    frozenset({Role.EVALUATOR}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU."""

    uuid: str
    """``GPU-...``, or ``MIG-...`` for an instance of a GPU that is divided."""
    name: str
    index: int = 0
    """The driver's number of the GPU."""
    gpu_uuid: str = ""
    """The GPU that an instance is part of."""
    busy_pids: tuple[int, ...] = ()
    """Processes other than this one that compute on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one replica gets, and the variables that tell it so.

    Devices are named by UUID, so inside the replica they count from 0 (R10).
    """

    uuids: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def assigned(
    replicas: Sequence[ReplicaPlan],
    devices: Sequence[Device],
    note: Callable[[str], None],
    lock_dir: Path | None = None,
    *,
    lone_takes_all: bool = True,
) -> Iterator[tuple[Share, ...]]:
    """Hold the devices of a job while it runs; yields one share a replica.

    Says in one line what the job asked for and did not get, and in another which processes are in
    the way.  ``lock_dir`` is for tests; without it, it is the one that all users share.
    ``lone_takes_all`` False: a single replica that asks for none gets none, as any other.

    Raises EngineFault when the locks cannot be used.
    """
    wanted = [replica.gpu_count for replica in replicas]
    takes_all = lone_takes_all and len(replicas) == 1 and not any(wanted)
    limit = len(devices) if takes_all else sum(wanted)
    with ExitStack() as locks:
        held, busy = _lock_free(devices, limit, lock_dir, locks)
        counts = (len(held),) if takes_all else deal(replicas, len(held))
        for _, give_back in held[sum(counts) :]:
            give_back()
        for text in _remarks(replicas, counts, devices, len(held), takes_all=takes_all):
            note(text)
        if busy and len(held) < limit:
            note(in_the_way(busy))
        yield _shares(counts, [device for device, _ in held], machine_has_gpus=bool(devices))


def deal(replicas: Sequence[ReplicaPlan], free: int) -> tuple[int, ...]:
    """How many of ``free`` devices each replica gets, in complete rounds."""
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


def shortage(
    replicas: Sequence[ReplicaPlan], counts: Sequence[int], *, machine: int, free: int
) -> str:
    """The one line that says what was asked for and what there is instead."""
    total = sum(replica.gpu_count for replica in replicas)
    has = _HAS.get(machine, f"has {machine}")
    busy = f", {free} of them free" if machine > free and free < total else ""
    given = sorted({c for c, r in zip(counts, replicas, strict=True) if r.gpu_count})
    result = "the replicas run on the CPU"
    if any(given):
        result = f"each gets {' to '.join(map(str, dict.fromkeys((given[0], given[-1]))))}"
    return f"asked for {_asked(replicas)} ({total} in all); this machine {has}{busy}: {result}"


_HAS = {0: "has none"}


def _remarks(
    replicas: Sequence[ReplicaPlan],
    counts: Sequence[int],
    devices: Sequence[Device],
    free: int,
    *,
    takes_all: bool,
) -> Iterator[str]:
    """What the job should know of its devices: nothing, or one line."""
    machine = len(devices)
    if any(replica.gpu_count for replica in replicas):
        if any(c != r.gpu_count for c, r in zip(counts, replicas, strict=True)):
            yield shortage(replicas, counts, machine=machine, free=free)
    elif machine and not takes_all:
        yield f"this machine has {_gpus(machine)}; the job asks for none"
    elif free < machine:
        result = f"gets {free}" if free else "runs on the CPU"
        yield f"this machine has {_gpus(machine)}, {free or 'none'} of them free: the job {result}"


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"


def in_the_way(busy: Sequence[Device]) -> str:
    """The one line that names the processes that keep devices from being free."""
    names = (f"{d.uuid} (process {', '.join(map(str, d.busy_pids))})" for d in busy)
    return f"in use by processes of others: {', '.join(names)}"


def _asked(replicas: Sequence[ReplicaPlan]) -> str:
    """``4 NVIDIA_TESLA_T4 per master and worker``: groups that ask alike are named together."""
    groups: dict[str, list[str]] = {}
    for replica in replicas:
        if replica.gpu_count:
            names = groups.setdefault(f"{replica.gpu_count} {replica.gpu_type or 'GPU'}", [])
            group = re.sub(r"(-replica)?-\d+$", "", replica.task_name)
            if group not in names:
                names.append(group)
    return ", ".join(f"{what} per {' and '.join(names)}" for what, names in groups.items())


def share(uuids: Sequence[str], *, machine_has_gpus: bool) -> Share:
    """What a replica gets that gets these devices; none hides all that the machine has."""
    names = ",".join(uuids)
    # NVIDIA_VISIBLE_DEVICES is what container runtimes read; "void" is their word for none
    env = {"CUDA_VISIBLE_DEVICES": names, "NVIDIA_VISIBLE_DEVICES": names or "void"}
    return Share(uuids=tuple(uuids), env=env if machine_has_gpus else {})


def _shares(
    counts: Sequence[int], held: Sequence[Device], *, machine_has_gpus: bool
) -> tuple[Share, ...]:
    shares = []
    rest = [device.uuid for device in held]
    for count in counts:
        mine, rest = rest[:count], rest[count:]
        shares.append(share(mine, machine_has_gpus=machine_has_gpus))
    return tuple(shares)


def _lock_free(
    devices: Sequence[Device], count: int, lock_dir: Path | None, locks: ExitStack
) -> tuple[list[tuple[Device, Callable[[], None]]], list[Device]]:
    """Up to ``count`` free devices, each with the way to give it back early; and the busy ones.

    A device that another job has locked is not among the busy: the processes are that job's.
    """
    held: list[tuple[Device, Callable[[], None]]] = []
    busy: list[Device] = []
    directory = lock_dir or device_locks.shared_directory()
    holder = device_locks.Holder(os.getpid(), "a local run")
    if devices and count:
        device_locks.prepare(directory)
    for device in devices:
        lock = None
        if len(held) < count:
            lock = device_locks.try_lock(directory, device.uuid, holder)
        if lock is None:
            continue
        if device.busy_pids:
            lock.close()
            busy.append(device)
        else:
            held.append((device, locks.enter_context(lock).close))
    return held, busy
