"""Gives each replica GPUs of its own, and never one that another job on this machine holds (R10).

A device is held by a lock on a file named after its UUID.  The kernel releases the lock when the
launcher and its supervisor are gone, however they went, so there is nothing to clean up and nothing
to guess.

When there are too few, devices are dealt in rounds, one to every replica that still wants one, and
a round that cannot be completed is not dealt: replicas of one training cluster that see different
hardware choose different collectives and hang.
"""

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role

_PRIVATE = 0o700

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
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one replica gets, and the variables that tell it so.

    Devices are named by UUID, so inside the replica they count from 0 (R10).
    """

    uuids: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def fake_devices(count: int) -> tuple[Device, ...]:
    """Devices that exist in name only, to walk the same way without hardware."""
    return tuple(Device(uuid=f"GPU-fake-{i:04d}", name="Fake GPU") for i in range(count))


@contextmanager
def assigned(
    replicas: Sequence[ReplicaPlan],
    devices: Sequence[Device],
    note: Callable[[str], None],
    lock_dir: Path | None = None,
) -> Iterator[tuple[Share, ...]]:
    """Hold the devices of a job while it runs; yields one share a replica.

    Says in one line what the job asked for and did not get.
    """
    wanted = [replica.gpu_count for replica in replicas]
    with ExitStack() as locks:
        held = _lock_free(devices, sum(wanted), lock_dir, locks) if any(wanted) else []
        counts = deal(replicas, len(held))
        for _, give_back in held[sum(counts) :]:
            give_back()
        if counts != tuple(wanted):
            note(shortage(replicas, counts, machine=len(devices), free=len(held)))
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


def _shares(
    counts: Sequence[int], held: Sequence[Device], *, machine_has_gpus: bool
) -> tuple[Share, ...]:
    shares = []
    rest = [device.uuid for device in held]
    for count in counts:
        mine, rest = tuple(rest[:count]), rest[count:]
        names = ",".join(mine)
        # NVIDIA_VISIBLE_DEVICES is what container runtimes read; "void" is their word for none
        env = {"CUDA_VISIBLE_DEVICES": names, "NVIDIA_VISIBLE_DEVICES": names or "void"}
        shares.append(Share(uuids=mine, env=env if machine_has_gpus else {}))
    return tuple(shares)


def _lock_free(
    devices: Sequence[Device], count: int, lock_dir: Path | None, locks: ExitStack
) -> list[tuple[Device, Callable[[], None]]]:
    """Up to ``count`` devices that nobody holds, each with the way to give it back early."""
    directory = (lock_dir or runtime_dir()) if devices else Path()
    held: list[tuple[Device, Callable[[], None]]] = []
    for device in devices:
        lock = _try_lock(directory / f"{device.uuid}.lock") if len(held) < count else None
        if lock is not None:
            held.append((device, locks.enter_context(lock).close))
    return held


def _try_lock(path: Path) -> BinaryIO | None:
    try:
        file = path.open("wb")
    except OSError as error:
        raise EngineFault(f"cannot lock a GPU: {path}: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def runtime_dir() -> Path:
    """A directory of this user alone, for locks: below $XDG_RUNTIME_DIR or the temporary one.

    Raises EngineFault when somebody else owns what lies there.
    """
    given = os.environ.get("XDG_RUNTIME_DIR")
    home = Path(given) / "trainshed" if given else _temporary()
    try:
        home.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        facts = home.lstat()
    except OSError as error:
        raise EngineFault(f"cannot make {home}: {error.strerror}") from error
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) != _PRIVATE:
        raise EngineFault(f"{home} must be a directory of yours alone (mode 700)")
    return home


def _temporary() -> Path:
    return Path(tempfile.gettempdir()) / f"trainshed-{os.getuid()}"
