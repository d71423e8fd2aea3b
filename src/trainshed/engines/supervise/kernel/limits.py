"""Sets the resource limits of one replica and measures its usage.

Under cgroup2 the kernel kills all processes of a replica that runs out of memory: a trainer hangs
if only its data loaders are killed.  The v1 tree has no such switch, and the kernel kills one
process there.  ``prlimit`` is not used for memory: it limits the address space, of which CUDA
reserves many times more than it uses.
"""

import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Optional

from trainshed.engines.processes.tree import read

_PERIOD_US: Final = 100_000
_QUOTA_US_MIN: Final = 1_000


class ReplicaLimits(NamedTuple):
    """The limits of one replica; None: no limit."""

    memory_bytes: Optional[int] = None
    """RAM, including cached files that the replica has read or written; it gets no swap."""
    cpus: Optional[float] = None
    pids: Optional[int] = None
    """Processes and threads together."""


class Usage(NamedTuple):
    """The usage of one replica; None: unknown."""

    cpu_ns: int | None = None
    memory_bytes: int | None = None
    """The memory in use now, without file pages that the kernel can free at once."""
    peak_bytes: int | None = None
    """The largest memory in use so far.  With a memory limit, the kernel measures it, including
    cached files.  Otherwise it is the largest sample, or the peak of the largest process if that is
    more."""
    oom_kills: int = 0
    """The number of its processes that the kernel killed for lack of memory; 0 without a limit."""
    refused_forks: int = 0
    """The number of processes and threads that the kernel refused; 0 without a limit."""
    machine_oom_kills: int = 0
    """The number of processes on the machine that were killed for lack of memory while the replica
    ran; set when the replica has ended."""
    read_bytes: int | None = None
    """The bytes read from block devices so far."""
    written_bytes: int | None = None
    """The bytes written to block devices so far."""
    tasks: int | None = None
    """The number of processes and threads now."""
    at_s: float | None = None
    """When another machine measured this, by a monotonic clock of that machine; None: just now."""


#: The counters of a replica that has just started.
START_USAGE = Usage(cpu_ns=0, read_bytes=0, written_bytes=0)


class Setting(NamedTuple):
    """One file of a cgroup directory and the text to write to it."""

    file: str
    text: str
    required: bool = True
    """Whether the limit does not hold if the file cannot be written."""


#: The controllers, in the order of the fields of ``ReplicaLimits`` that they enforce.
CONTROLLERS: Final = ("memory", "cpu", "pids")


def list_controllers(limits: Iterable[ReplicaLimits]) -> tuple[str, ...]:
    """List the controllers that are needed to enforce some limits."""
    rows = list(limits)
    return tuple(
        controller
        for column, controller in enumerate(CONTROLLERS)
        if any(row[column] is not None for row in rows)
    )


def settings_v2(limits: ReplicaLimits, controllers: Iterable[str]) -> Sequence[Setting]:
    """List the settings of a cgroup2 leaf for the limits that these controllers enforce."""
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


def settings_v1(limits: ReplicaLimits, controller: str) -> Sequence[Setting]:
    """List the settings of a leaf in the tree of a v1 controller."""
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


def limit_processes(processes_max: int, uid: int) -> None:
    """Limit the processes and threads of a user to the present number and ``processes_max`` more.

    This replaces a cgroup limit for the calling process, so that one job cannot use all processes
    of the machine.  The kernel counts all processes and threads of a user (RLIMIT_NPROC of
    setrlimit(2)), but does not limit root.  Never raises.
    """
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        bound = _count_threads(uid) + processes_max
        if hard != resource.RLIM_INFINITY:
            bound = min(bound, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))


def _count_threads(uid: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


_KIB = 1024
_NS_PER_US = 1_000

# fields 14 to 17 and 20 of /proc/PID/stat (proc(5)), from the closing bracket of the command
_CPU_TICKS = slice(14 - 3, 17 - 3 + 1)
_THREADS = 20 - 3


class Sample(NamedTuple):
    """The usage of some processes at one moment."""

    cpu_ns: int
    memory_bytes: int
    largest_bytes: int
    """The largest peak of a single process."""
    io_bytes: tuple[int, int] | None
    """The bytes read from and written to block devices; None if a process hides them."""
    tasks: int
    """The number of processes and threads."""


def sample(pids: Iterable[int]) -> Sample | None:
    """Measure the living processes; None if all have ended.  Takes about 70 us per process.

    Processes may map the same files and shared memory.  So of these, only the largest size of a
    single process counts.
    """
    anonymous, shared, largest, ticks, tasks = 0, [0], 0, 0, 0
    io_bytes: list[tuple[int, int] | None] = []
    has_read = False
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            sizes = _sizes(pid)
            stat = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            ticks += sum(map(int, stat[_CPU_TICKS]))
            tasks += int(stat[_THREADS])
            io_bytes.append(_process_io_bytes(pid))
            anonymous += sizes.get("RssAnon", 0)
            shared.append(sizes.get("RssFile", 0) + sizes.get("RssShmem", 0))
            largest = max(largest, sizes.get("VmHWM", 0))
            has_read = True
    if not has_read:
        return None
    cpu_ns = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return Sample(cpu_ns, anonymous + max(shared), largest, _add_up(io_bytes), tasks)


def _process_io_bytes(pid: int) -> tuple[int, int] | None:
    """Return what a process and its ended children have read from and written to block devices."""
    with suppress(OSError, ValueError):
        lines = dict(line.split(": ") for line in read(f"/proc/{pid}/io").splitlines())
        return int(lines["read_bytes"]), int(lines["write_bytes"])
    return None


def _add_up(pairs: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Add up pairs of numbers; None if one pair is unknown."""
    complete = [pair for pair in pairs if pair is not None]
    if len(complete) < len(pairs):
        return None
    return sum(pair[0] for pair in complete), sum(pair[1] for pair in complete)


def cpu_ns(leaves: Mapping[str, str]) -> int | None:
    """Return the CPU time of all processes that ran in a replica's directories, given by tree.

    None: the kernel does not count it.
    """
    if "" in leaves:  # cgroup2 counts it without any controller
        used_us = _fields(leaves[""] + "/cpu.stat").get("usage_usec")
        return None if used_us is None else used_us * _NS_PER_US
    return _number(leaves["cpuacct"] + "/cpuacct.usage") if "cpuacct" in leaves else None


def memory_bytes(leaves: Mapping[str, str]) -> int | None:
    """Return the memory in use, without inactive file pages; None if the kernel does not count."""
    if "memory" in leaves:
        used = _number(leaves["memory"] + "/memory.usage_in_bytes")
        idle = _fields(leaves["memory"] + "/memory.stat").get("total_inactive_file", 0)
    else:
        used = _number(leaves.get("", "") + "/memory.current")
        idle = _fields(leaves.get("", "") + "/memory.stat").get("inactive_file", 0)
    return None if used is None else max(0, used - idle)


def io_bytes(leaves: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the bytes read from and written to block devices; None if the kernel does not count.

    Only a box in cgroup2 with the controller ``io`` counts them.
    """
    if "" not in leaves:
        return None
    with suppress(OSError, ValueError):
        words = read(leaves[""] + "/io.stat").split()
        pairs = [word.split("=") for word in words if "=" in word]
        return (
            sum(int(number) for name, number in pairs if name == "rbytes"),
            sum(int(number) for name, number in pairs if name == "wbytes"),
        )
    return None


def tasks(leaves: Mapping[str, str]) -> int | None:
    """Return the number of processes and threads; None without the controller ``pids``."""
    return _number((leaves.get("pids") or leaves.get("", "")) + "/pids.current")


def peak_bytes(leaves: Mapping[str, str]) -> int | None:
    """Return the peak of the memory in use; None if the kernel does not record it."""
    if "memory" in leaves:
        return _number(leaves["memory"] + "/memory.max_usage_in_bytes")
    return _number(leaves.get("", "") + "/memory.peak")


def oom_kills(leaves: Mapping[str, str]) -> int:
    """Return the number of processes that the kernel killed for lack of memory."""
    if "memory" in leaves:
        return _fields(leaves["memory"] + "/memory.oom_control").get("oom_kill", 0)
    return _fields(leaves.get("", "") + "/memory.events").get("oom_kill", 0)


def refused_forks(leaves: Mapping[str, str]) -> int:
    """Return the number of processes and threads that the kernel refused because of the limit."""
    return _fields((leaves.get("pids") or leaves.get("", "")) + "/pids.events").get("max", 0)


def machine_oom_kills() -> int:
    """Return the number of processes killed for lack of memory on the machine since boot."""
    return _fields("/proc/vmstat").get("oom_kill", 0)


def _sizes(pid: int) -> dict[str, int]:
    """Return the sizes in /proc/PID/status, in bytes."""
    lines = (line.split() for line in read(f"/proc/{pid}/status").splitlines())
    return {line[0][:-1]: int(line[1]) * _KIB for line in lines if line[-1:] == ["kB"]}


def _fields(path: str) -> dict[str, int]:
    """Read a file of names and numbers; empty if the file cannot be read."""
    with suppress(OSError, ValueError):
        return {name: int(value) for name, value in map(str.split, read(path).splitlines())}
    return {}


def _number(path: str) -> int | None:
    with suppress(OSError, ValueError):
        return int(read(path))
    return None
