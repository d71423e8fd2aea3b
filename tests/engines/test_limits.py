"""What a replica may use at most is kept by the kernel, known afterwards, and said in words."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import trainshed
from engines.cages import SLEEPER, boxes_left, owned
from engines.end_words import describe_end
from engines.support import Recorder, plan_of, python_replica, run, wait_until
from trainshed.engines.processes import cgroup
from trainshed.engines.supervise.kernel import cgroups, limits
from trainshed.engines.supervise.kernel.kill import CGROUP_KILL, open_process_tree
from trainshed.engines.supervise.kernel.limits import (
    ReplicaLimits,
    Usage,
    list_controllers,
    settings_v1,
    settings_v2,
)
from trainshed.model.roles import Role

MIB = 1 << 20
GREEDY = "held = []\nwhile True: held.append(b'x' * (8 << 20))"


def enforces(limits):
    tree = open_process_tree("probe", 1, [limits], allow=[CGROUP_KILL])
    tree.remove()
    return not tree.remarks


limits_memory = pytest.mark.skipif(
    not enforces(ReplicaLimits(memory_bytes=MIB * 100)), reason="no memory cgroup here: run as root"
)
limits_pids = pytest.mark.skipif(not cgroups.offers("pids"), reason="no pids cgroup: run as root")
limits_cpu = pytest.mark.skipif(
    not enforces(ReplicaLimits(cpus=1.0)), reason="no cpu cgroup: run as root"
)


@limits_memory
def test_a_replica_over_its_memory_is_killed_and_its_end_says_why(mark):
    limits = [[100 * MIB, None, None], [None, None, None]]
    with owned(mark, GREEDY, SLEEPER, limits=limits, ready=False) as owner:
        end = owner.ask("end_of", 0, owner.pids[0])
        assert end["code"] == -signal.SIGKILL
        assert end["oom_kills"] == 1
        assert 90 * MIB < end["peak_bytes"] <= 100 * MIB
        assert end["words"] == (
            "was killed by SIGKILL: out of memory at its limit of 100 MiB (peak 100 MiB)"
        )
        assert owner.ask("living") == {"living": True}
        assert owner.ask("usage", 1)["oom_kills"] == 0


@limits_memory
def test_a_replica_whose_child_was_over_the_memory(mark):
    """Where the kernel ends the replica as a whole (cgroup2) it does not come to speak of it."""
    code = (
        "import subprocess, sys\n"
        f"done = subprocess.run([sys.executable, '-c', {GREEDY!r}])\n"
        "sys.exit(7 if done.returncode == -9 else 0)"
    )
    with owned(mark, code, limits=[[100 * MIB, None, None]], ready=False) as owner:
        end = owner.ask("end_of", 0, owner.pids[0])
        assert end["oom_kills"] >= 1
        assert end["code"] in {7, -signal.SIGKILL}
        assert "out of memory at its limit of 100 MiB" in end["words"]


@limits_memory
def test_memory_in_swap_is_no_way_out(mark):
    """Twice the limit never fits, whatever swap the machine has."""
    code = "x = b'x' * (200 << 20)"
    with owned(mark, code, limits=[[100 * MIB, None, None]], ready=False) as owner:
        assert owner.ask("end_of", 0, owner.pids[0])["code"] == -signal.SIGKILL


@limits_pids
def test_a_replica_cannot_have_more_processes_than_its_limit(mark):
    code = (
        "import os, sys, time\n"
        "for count in range(20):\n"
        "    try:\n"
        "        if os.fork() == 0: time.sleep(600)\n"
        "    except OSError:\n"
        "        sys.exit(count)\n"
    )
    with owned(mark, code, limits=[[None, None, 5]], ready=False) as owner:
        assert owner.ask("end_of", 0, owner.pids[0])["code"] == 4


@limits_pids
def test_the_log_says_that_a_replica_wanted_more_processes_than_it_may_have():
    code = (
        "import os, signal\n"
        "try:\n"
        "    while os.fork(): pass\n"
        "    signal.pause()\n"
        "except OSError: print('full')\n"
    )
    plan = plan_of([python_replica(Role.PRIMARY, 0, code, processes_max=20)])
    recorder = Recorder()
    assert run(plan, recorder).exit_code == 0
    assert recorder.texts("master-replica-0") == ["full"]
    assert (
        "WARNING: The kernel refused master-replica-0 a process or thread once: the replica had "
        "reached its limit. If it needs more, raise limits.processes_max." in recorder.notes
    )


@limits_cpu
def test_a_replica_over_its_share_of_the_cpu_is_held_back(mark):
    code = "import os\nos.write(1, b'ready\\n')\nwhile True: pass"
    with owned(mark, code, limits=[[None, 0.1, None]]) as owner:
        leaves = [f"{box}/0" for box in owner.places["boxes"]]
        held_back = [limits._fields(leaf + "/cpu.stat") for leaf in leaves]
        assert any("nr_throttled" in fields for fields in held_back)
        wait_until(
            lambda: any(limits._fields(f"{leaf}/cpu.stat").get("nr_throttled") for leaf in leaves),
            "the kernel has made it wait",
        )


def test_limits_make_only_the_boxes_that_they_need(mark):
    with owned(mark, SLEEPER) as free, owned(mark, SLEEPER, limits=[[None, None, 50]]) as limited:
        assert len(free.places["boxes"]) <= 1
        assert len(limited.places["boxes"]) <= 2
        limited.kill_all()
        limited.ask("remove")
        assert not boxes_left(limited)


@limits_pids
def test_a_limit_that_the_kernel_refuses_is_remarked():
    tree = open_process_tree(
        "refused", 2, [ReplicaLimits(), ReplicaLimits(pids=-7)], allow=[CGROUP_KILL]
    )
    tree.remove()
    assert tree.remarks == (
        "a limit of replica 1 is not enforced: pids.max = -7: Invalid argument",
    )


def test_limits_without_any_cgroup_are_remarked_once_for_each_kind(monkeypatch):
    monkeypatch.setattr(cgroup, "own_directory", lambda *_: None)
    limits = [ReplicaLimits(memory_bytes=MIB, cpus=1.0), ReplicaLimits(memory_bytes=MIB)]
    tree = open_process_tree("bare", 2, limits, allow=[CGROUP_KILL])
    tree.remove()
    assert [remark.split(" are ")[0] for remark in tree.remarks] == ["memory limits", "CPU limits"]


#: Forks as often as it may, as a user whom nobody else is.
BY_USER = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(trainshed.__file__).parents[1])!r})
from trainshed.engines.processes import cgroup
from trainshed.engines.supervise.kernel.kill import open_process_tree
from trainshed.engines.supervise.kernel.limits import ReplicaLimits
cgroup.own_directory = lambda *_: None
uid = 1_900_060_606 if os.getuid() == 0 else os.getuid()
tree = open_process_tree("bare", 1, [ReplicaLimits(pids=20)], allow=[])
tree.enter(0, uid)
os.setuid(uid)
forked = []
try:
    while len(forked) < 100:
        if (pid := os.fork()) == 0:
            signal.pause()
        forked.append(pid)
except BlockingIOError:
    print(tree.remarks, "as many as it may")
for pid in forked:
    os.kill(pid, signal.SIGKILL)
"""


def test_where_there_is_no_pids_cgroup_processes_are_limited_by_their_user():
    argv = [sys.executable, "-c", BY_USER]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "() as many as it may\n", done.stderr


def test_which_controllers_some_limits_ask_for():
    assert list_controllers([]) == list_controllers([ReplicaLimits()]) == ()
    assert list_controllers([ReplicaLimits(pids=3), ReplicaLimits(memory_bytes=1)]) == (
        "memory",
        "pids",
    )
    assert list_controllers([ReplicaLimits(1, 1.0, 1)]) == ("memory", "cpu", "pids")


def test_what_is_written_for_limits():
    limits = ReplicaLimits(memory_bytes=2 << 30, cpus=1.5, pids=100)
    everything = {s.file: s.text for s in settings_v2(limits, ["memory", "cpu", "pids"])}
    assert everything == {
        "memory.max": "2147483648",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "150000 100000",
        "pids.max": "100",
    }
    assert [s.file for s in settings_v2(limits, ["pids"])] == ["pids.max"]
    assert settings_v2(ReplicaLimits(), ["memory", "cpu", "pids"]) == []
    assert {s.file: s.text for s in settings_v1(limits, "cpu")} == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
    }
    assert settings_v1(ReplicaLimits(cpus=0.001), "cpu")[1].text == "1000"  # the kernel's least


def cgroup2(folder, controllers):
    """A folder that looks like a cgroup2 directory in which asking for controllers is refused."""
    folder.mkdir()
    (folder / "cgroup.procs").touch()
    (folder / "cgroup.subtree_control").write_text(controllers)
    (folder / "cgroup.subtree_control").chmod(0o444)
    return folder


def test_boxes_stand_beside_a_directory_that_has_processes_and_no_controllers(
    tmp_path, monkeypatch
):
    """As under systemd: the slice gives controllers to the services in it."""
    above = cgroup2(tmp_path / "slice", "cpu memory pids")
    own = cgroup2(above / "service", "")
    monkeypatch.setattr(cgroup, "own_directory", lambda *_: str(own))
    monkeypatch.setattr(cgroups, "write", refuse)
    assert cgroups.unified_home(["memory", "pids"]) == (str(above), ["memory", "pids"])
    assert cgroups.unified_home([]) == (str(own), [])
    (above / "cgroup.subtree_control").write_text("")
    assert cgroups.unified_home(["memory"]) == (str(own), [])


def refuse(*_):
    raise OSError


def test_usage_is_read_from_the_files_of_cgroup2(tmp_path):
    files = {
        "cpu.stat": "usage_usec 1500\nuser_usec 1000\n",
        "memory.current": "3000\n",
        "memory.stat": "anon 1000\ninactive_file 500\n",
        "memory.peak": "4000\n",
        "memory.events": "low 0\noom 3\noom_kill 2\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    leaves = {"": str(tmp_path)}
    assert limits.cpu_ns(leaves) == 1_500_000
    assert limits.memory_bytes(leaves) == 2500
    assert limits.peak_bytes(leaves) == 4000
    assert limits.oom_kills(leaves) == 2


CHILDREN_KILLED = (
    "exited with code 1 after 2 of its processes had been killed: "
    "out of memory at its limit of 2.0 GiB (peak 2.0 GiB)"
)
SIGKILL, SIGSEGV = -signal.SIGKILL, -signal.SIGSEGV
NO_LIMIT = ReplicaLimits()


@pytest.mark.parametrize(
    ("status", "usage", "limits", "words"),
    [
        (0, Usage(peak_bytes=5 * MIB), NO_LIMIT, "exited with code 0"),
        (3, Usage(), NO_LIMIT, "exited with code 3"),
        (3, Usage(peak_bytes=310 * MIB), NO_LIMIT, "exited with code 3; peak memory 310 MiB"),
        (SIGKILL, Usage(), NO_LIMIT, "was killed by SIGKILL (out of memory?)"),
        (
            SIGSEGV,
            Usage(peak_bytes=310 * MIB),
            NO_LIMIT,
            "was killed by SIGSEGV; peak memory 310 MiB",
        ),
        (
            SIGKILL,
            Usage(peak_bytes=2048 * MIB, oom_kills=1),
            ReplicaLimits(memory_bytes=2048 * MIB),
            "was killed by SIGKILL: out of memory at its limit of 2.0 GiB (peak 2.0 GiB)",
        ),
        (
            1,
            Usage(peak_bytes=2048 * MIB, oom_kills=2),
            ReplicaLimits(memory_bytes=2048 * MIB),
            CHILDREN_KILLED,
        ),
        (0, Usage(oom_kills=1), ReplicaLimits(memory_bytes=MIB), "exited with code 0"),
        (
            SIGKILL,
            Usage(peak_bytes=310 * MIB, machine_oom_kills=1),
            NO_LIMIT,
            "was killed by SIGKILL while the machine was out of memory (peak 310 MiB)",
        ),
        (SIGSEGV, Usage(machine_oom_kills=1), NO_LIMIT, "was killed by SIGSEGV"),
        (-signal.SIGBUS, Usage(), NO_LIMIT, "was killed by SIGBUS (is /dev/shm full?)"),
        (-40, Usage(), NO_LIMIT, "was killed by signal 40"),
    ],
)
def test_an_end_in_words(status, usage, limits, words):
    assert describe_end(status, usage, limits) == words
