"""Counts what Slurm and the kernel count: requests, CPU seconds of nodes, memory of processes."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.slurm.sides import Cluster, wait_until

_CPUACCT = Path("/sys/fs/cgroup/cpuacct")
#: A line of sdiag: the name of a request, and how many the controller got since its last reset.
_REQUEST = re.compile(r"^\s*(REQUEST_\w+)\s*\(\s*\d+\)\s*count:\s*(\d+)", re.MULTILINE)
#: Requests for jobs; squeue of one user sends another one than squeue of all.
_QUERIES = frozenset({"REQUEST_JOB_INFO", "REQUEST_JOB_USER_INFO"})
_SUBMISSIONS = frozenset({"REQUEST_SUBMIT_BATCH_JOB", "REQUEST_SUBMIT_BATCH_HET_JOB"})
_NS_PER_MS = 1e6
#: Seconds between two counts: sdiag takes time from the server that is measured.
_COUNT_PAUSE_S = 0.05


def count_queries(at: Cluster) -> int:
    """Return the number of requests for jobs that the controller has got."""
    return _count(at, _QUERIES)


def count_submissions(at: Cluster) -> int:
    """Return the number of batch jobs that were submitted to the controller."""
    return _count(at, _SUBMISSIONS)


def _count(at: Cluster, names: frozenset[str]) -> int:
    rows = _REQUEST.findall(at.command("sdiag"))
    return sum(int(count) for name, count in rows if name in names)


def await_submissions(at: Cluster, count: int) -> float:
    """Wait until the controller has got ``count`` submissions in all; return the time."""
    wait_until(
        lambda: count_submissions(at) >= count, f"{count} submissions", pause_s=_COUNT_PAUSE_S
    )
    return time.time()


def why_no_cpu() -> str:
    """Return why the CPU time of nodes cannot be counted; empty if it can."""
    return "" if (_CPUACCT / "cgroup.procs").exists() else "no cgroup v1 with cpuacct is mounted"


@contextlib.contextmanager
def counted_nodes(at: Cluster) -> Iterator[Callable[[], float]]:
    """Count the CPU time of all slurmd and of what they start; the value is a reader, in ms."""
    group = _CPUACCT / f"trainshed-benchmark-{os.getpid()}"
    group.mkdir()
    daemons = [path.read_text().strip() for path in (at.folder / "run").glob("slurmd.*.pid")]
    try:
        for pid in daemons:
            (group / "cgroup.procs").write_text(pid)
        yield lambda: int((group / "cpuacct.usage").read_text()) / _NS_PER_MS
    finally:
        wait_until(lambda: _leave(group), "the counted processes have left their cgroup")
        group.rmdir()


def _leave(group: Path) -> bool:
    pids = (group / "cgroup.procs").read_text().split()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has just ended
            (_CPUACCT / "cgroup.procs").write_text(pid)
    return not pids


def memory_below_reapers_mb(at: Cluster, word: str) -> list[float]:
    """Return the memory of each process below a reaper, and of the reaper, in MB.

    ``word`` is the argument after the archive of both, which is in the cluster's folder.  Their
    common pages count once and as if no other process of the machine had them: it is what they need
    alone on a node.
    """
    sizes = []
    for pid, parent in _list_processes(at, word):
        if _has_word(at, parent, word):
            own, reaper = _read_rollup(pid), _read_rollup(parent)
            private = reaper["Private_Clean"] + reaper["Private_Dirty"]
            sizes.append((own["Rss"] + private) / 1024)
    return sizes


def _list_processes(at: Cluster, word: str) -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and _has_word(at, int(entry.name), word):
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                yield int(entry.name), int(fields[1])


def _has_word(at: Cluster, pid: int, word: str) -> bool:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        archives = [one for one in words if one.endswith(".pyz")]
        return word in words and any(one.startswith(f"{at.folder}/") for one in archives)
    return False


def _read_rollup(pid: int) -> dict[str, int]:
    """Return the sizes of a process's mappings by name, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.partition(":")[0]: int(line.split()[-2]) for line in lines}
