"""What reducing costs in memory: rings at the reducer, nothing at the worker."""

import re
import sys
from pathlib import Path

import pytest

from reduction.reducer_process import HOST, TOKEN, ReducerProcess
from reduction.stage import cast_at, nursery
from trainshed_trainer.reduction.reducer import RING_MAX

pytestmark = pytest.mark.slow

#: The promise of issue 6 and docs/sources/reduction.md 8, G9 and G10, in bytes.
BASE = 35_000_000
PER_RING = 1.1
WORKER_MOST = 2 << 20


@pytest.fixture(scope="module")
def fork():
    with nursery() as parent:
        yield parent.fork


def peak_of(pid):
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024


def run(fork, reducer, world, count, **settings):
    """Sum a tensor of so many elements a few times, over links that are measured in earnest."""
    about = {"sizes": [count], "rounds": 3, "probes": True, **settings}
    stage = cast_at(fork, [(HOST, reducer.port)], TOKEN, world, **about)
    try:
        ends = stage.ends()
        assert all((end["error"], end["wrong"]) == (None, 0) for end in ends.values())
        return ends
    finally:
        stage.close()


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.full)])
def test_a_reducer_s_peak_is_its_rings_whatever_the_tensor(fork, world):
    """The worst case is measured: rings of the largest size, a tensor many times as large."""
    allowed = BASE + PER_RING * (world + 2) * RING_MAX
    with ReducerProcess() as reducer:
        run(fork, reducer, world, 4_000_000)
        small = peak_of(reducer.process.pid)
        run(fork, reducer, world, 16_000_000)
        large = peak_of(reducer.process.pid)
    peaks = f"{small / 1e6:.1f} and {large / 1e6:.1f} MB of {allowed / 1e6:.1f} MB"
    sys.stdout.write(f"{world} workers: {peaks}\n")
    assert large <= allowed
    assert large - small < 4 << 20


def test_a_reducer_s_peak_counts_one_group_at_a_time(fork):
    """A newer group takes its memory when the older's is free."""
    with ReducerProcess() as reducer:
        for _ in range(4):
            run(fork, reducer, 2, 1_000_000)
        assert peak_of(reducer.process.pid) <= BASE + PER_RING * 4 * RING_MAX


def test_a_worker_needs_no_copy_of_its_tensor(fork):
    """64 MB are reduced where they lie."""
    with ReducerProcess() as reducer:
        ends = run(fork, reducer, 2, 16_000_000, weighs=True)
    grown = [end["grown"] for end in ends.values()]
    if None in grown:
        pytest.skip("this kernel does not say what a moment's peak was")
    sys.stdout.write(f"a worker grew by at most {max(grown) / 1e6:.2f} MB\n")
    assert max(grown) < WORKER_MOST
