"""What a replica has used is known per replica, while it lives and when it has ended."""

import os

import pytest

from engines.cages import SLEEPER, needs, owned
from trainshed.engines.processes import tree
from trainshed.engines.supervise.kernel import limits
from trainshed.engines.supervise.kernel.kill import (
    CGROUP_KILL,
    SWEEP,
    V1_FREEZER,
    open_process_tree,
)

MIB = 1 << 20
HOLDS = "import os, time\nheld = b'x' * (64 << 20)\nos.write(1, b'ready\\n')\ntime.sleep(600)"
BURNS = (
    "import os, time\n"
    "end = 2 * time.process_time() + 0.2\n"  # more than starting takes on any machine
    "while time.process_time() < end: pass\n"
    "os.write(1, b'ready\\n')\n"
    "time.sleep(600)"
)

every_source = pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(strategy, marks=needs(strategy))
        for strategy in (CGROUP_KILL, V1_FREEZER, SWEEP)
    ],
)


@every_source
def test_memory_and_peak_of_a_living_replica(strategy, mark):
    with owned(mark, HOLDS, SLEEPER, allow=[strategy]) as owner:
        first, second = owner.ask("usage", 0), owner.ask("usage", 1)
        assert 64 * MIB < first["memory_bytes"] <= first["peak_bytes"] < 128 * MIB
        assert second["peak_bytes"] < 64 * MIB


@every_source
def test_cpu_time_is_that_of_the_replica_alone(strategy, mark):
    with owned(mark, BURNS, SLEEPER, allow=[strategy]) as owner:
        burnt, slept = owner.ask("usage", 0)["cpu_ns"], owner.ask("usage", 1)["cpu_ns"]
        assert burnt >= 180_000_000  # /proc counts in ticks of 10 ms
        assert slept < burnt


@every_source
def test_a_replica_that_nobody_looked_at_while_it_lived(strategy, mark):
    code = "import time\nheld = b'x' * (64 << 20)\nwhile time.process_time() < 0.2: pass"
    with owned(mark, code, allow=[strategy], ready=False) as owner:
        end = owner.ask("end_of", 0, owner.pids[0])
        assert end["peak_bytes"] > 64 * MIB
        assert end["cpu_ns"] >= 180_000_000
        assert end["memory_bytes"] is None


@every_source
def test_children_of_a_replica_count(strategy, mark):
    code = f"import os, time\nif os.fork(): time.sleep(600)\n{HOLDS}"
    with owned(mark, code, allow=[strategy]) as owner:
        assert owner.ask("usage", 0)["memory_bytes"] > 64 * MIB


def test_a_kill_by_the_machine_for_want_of_memory_is_known_at_the_end(monkeypatch):
    """The kernel counts them since it started: those from before do not count."""
    monkeypatch.setattr(limits, "machine_oom_kills", lambda: 5)
    tree = open_process_tree("machine's", 2, allow=())
    tree.add_usage(0, 1.0, 1)
    monkeypatch.setattr(limits, "machine_oom_kills", lambda: 7)
    tree.add_usage(1, 1.0, 1)
    assert [tree.usage(index).machine_oom_kills for index in (0, 1)] == [0, 2]


def test_memory_shared_by_many_processes_counts_once():
    alone = limits.sample([os.getpid()])
    twice = limits.sample([os.getpid(), os.getpid()])
    assert twice.memory_bytes < 2 * alone.memory_bytes
    assert twice.largest_bytes < 2 * alone.largest_bytes


@every_source
def test_what_a_replica_writes_and_its_threads_are_counted(strategy, mark, tmp_path):
    code = (
        f"import os, threading, time\nfile = os.open({str(tmp_path / 'file')!r}, 65)\n"
        "os.write(file, b'x' * (4 << 20))\nos.fsync(file)\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "os.write(1, b'ready\\n')\ntime.sleep(600)"
    )
    with owned(mark, code, SLEEPER, allow=[strategy]) as owner:
        first, second = owner.ask("usage", 0), owner.ask("usage", 1)
    assert (first["tasks"], second["tasks"]) == (2, 1)
    if first["written_bytes"] is None:
        pytest.skip("this kernel counts no bytes; run it on Linux with /proc/PID/io")
    assert 0 <= second["written_bytes"] < 1 * MIB
    assert first["read_bytes"] >= 0


def test_the_bytes_of_all_devices_of_a_box_count(tmp_path):
    (tmp_path / "io.stat").write_text(
        "8:0 rbytes=5 wbytes=7 rios=1 wios=1 dbytes=0 dios=0\n259:1 rbytes=50 wbytes=70 rios=1\n"
    )
    assert limits.io_bytes({"": str(tmp_path)}) == (55, 77)
    (tmp_path / "io.stat").write_text("8:0 rbytes=many\n")
    assert limits.io_bytes({"": str(tmp_path)}) is None
    assert limits.io_bytes({"": str(tmp_path / "absent")}) is None
    assert limits.io_bytes({"freezer": str(tmp_path)}) is None


def test_processes_that_are_gone_use_nothing():
    assert limits.sample([]) is None
    assert limits.sample([2**22 + 1]) is None


@needs(SWEEP)
def test_no_time_at_all_is_known_too(monkeypatch):
    """The clock of /proc has ticks of 10 ms: a short program has used none."""
    monkeypatch.setattr(tree, "adopt_orphans", lambda _: True)
    idle = open_process_tree("idle", 1, allow=[SWEEP])
    assert idle.usage(0).cpu_ns is None
    idle.add_replica(0, os.getpid())
    monkeypatch.setattr(limits, "sample", lambda _: limits.Sample(0, 1, 2, (3, 4), 5))
    usage = idle.usage(0)
    assert usage[:3] == (0, 1, 2)
    assert usage[-4:] == (3, 4, 5, None)
