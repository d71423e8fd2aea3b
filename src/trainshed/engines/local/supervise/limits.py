"""What one replica may use at most, what it has used, and how both are said to the kernel.

Under cgroup2 a replica that runs out of memory is ended as a whole: a trainer whose loaders were
killed one by one hangs.  The v1 tree has no such switch; the kernel picks a process there.
``prlimit`` is not used for memory: it counts addresses, of which CUDA reserves many times more than
it uses.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

_PERIOD_US: Final = 100_000
_QUOTA_US_MIN: Final = 1_000


class Limits(NamedTuple):
    """What one replica may use at most; None is no limit."""

    memory_bytes: int | None = None
    """Of RAM, the files that it has written or read lately included; it gets no swap."""
    cpus: float | None = None
    pids: int | None = None
    """Processes and threads together, as the kernel counts them."""


class Usage(NamedTuple):
    """What one replica has used; None is not known."""

    cpu_ns: int | None = None
    memory_bytes: int | None = None
    """In use now; without what the kernel would give back at once."""
    peak_bytes: int | None = None
    """The most it ever used: the kernel's figure where memory is limited, with its files in it;
    otherwise the largest sum over its processes that was seen, or its largest process."""
    oom_kills: int = 0
    """Processes of it that the kernel killed for want of memory; known where memory is limited."""
    machine_oom_kills: int = 0
    """Processes of the whole machine that were, since the replica began; known at its end."""


class Setting(NamedTuple):
    """One file of a cgroup directory and what is written to it."""

    file: str
    text: str
    required: bool = True
    """False: where it cannot be written, the limit holds all the same."""


#: Controllers by the name of both cgroup versions, and the limit that each enforces.
CONTROLLERS: Final = ("memory", "cpu", "pids")


def asked(limits: Iterable[Limits]) -> tuple[str, ...]:
    """The controllers that are needed to enforce some limits."""
    rows = list(limits)
    return tuple(
        controller
        for place, controller in enumerate(CONTROLLERS)
        if any(row[place] is not None for row in rows)
    )


def settings_v2(limits: Limits, controllers: Iterable[str]) -> Sequence[Setting]:
    """What to write into a cgroup2 leaf for the limits that these controllers enforce."""
    settings = []
    if "memory" in controllers and limits.memory_bytes is not None:
        settings += [
            Setting("memory.max", str(limits.memory_bytes)),
            Setting("memory.swap.max", "0", required=False),
            Setting("memory.oom.group", "1", required=False),
        ]
    if "cpu" in controllers and limits.cpus is not None:
        settings += [Setting("cpu.max", f"{_quota_us(limits.cpus)} {_PERIOD_US}")]
    if "pids" in controllers and limits.pids is not None:
        settings += [Setting("pids.max", str(limits.pids))]
    return settings


def settings_v1(limits: Limits, controller: str) -> Sequence[Setting]:
    """What to write into a leaf of one v1 tree."""
    if controller == "memory" and limits.memory_bytes is not None:
        return (
            Setting("memory.limit_in_bytes", str(limits.memory_bytes)),
            Setting("memory.memsw.limit_in_bytes", str(limits.memory_bytes), required=False),
        )
    if controller == "cpu" and limits.cpus is not None:
        return (
            Setting("cpu.cfs_period_us", str(_PERIOD_US)),
            Setting("cpu.cfs_quota_us", str(_quota_us(limits.cpus))),
        )
    if controller == "pids" and limits.pids is not None:
        return (Setting("pids.max", str(limits.pids)),)
    return ()


def _quota_us(cpus: float) -> int:
    return max(_QUOTA_US_MIN, round(cpus * _PERIOD_US))
