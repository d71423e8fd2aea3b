"""Samples of the server's own process, with the names of Prometheus' official clients."""

import os
import resource
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from trainshed.service.telemetry import families
from trainshed.service.telemetry.family import Family, FamilySamples


def read_process() -> Iterator[FamilySamples]:
    """Return the families of this process; on a system without /proc fewer of them."""
    times = os.times()
    yield _one(families.PROCESS_CPU, times.user + times.system)
    yield _one(families.PROCESS_START, _started_s())
    yield _one(families.PROCESS_OPEN_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    try:
        virtual, resident = Path("/proc/self/statm").read_text("ascii").split()[:2]
        descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    yield _one(families.PROCESS_VIRTUAL, int(virtual) * page_bytes)
    yield _one(families.PROCESS_RESIDENT, int(resident) * page_bytes)
    yield _one(families.PROCESS_OPEN, descriptors)


def _one(family: Family, value: float) -> FamilySamples:
    return family, {(): float(value)}


@cache
def _started_s() -> float:
    """Return when the process started, in seconds since 1970; now if the system does not say."""
    try:
        ticks = int(Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19])
        up_s = float(Path("/proc/uptime").read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return time.time()
    return time.time() - up_s + ticks / os.sysconf("SC_CLK_TCK")
