"""Each kill strategy, alone, ends what it promises to end; together they end everything."""

import os
import sys
from pathlib import Path

import pytest

from engines.cages import DAEMON, DEAF, IN_GROUP, SLEEPER, TRAINERS, boxes_left, needs, owned
from engines.support import assert_no_survivor, marked_processes, wait_until
from trainshed.engines.processes import tree
from trainshed.engines.supervise.kernel.kill import (
    CGROUP_KILL,
    KILL_STRATEGIES,
    KILLPG,
    SWEEP,
    V1_FREEZER,
    open_process_tree,
)

BOXES = [pytest.param(strategy, marks=needs(strategy)) for strategy in (CGROUP_KILL, V1_FREEZER)]
STRONG = [*BOXES, pytest.param(SWEEP, marks=needs(SWEEP))]
EVERY = [*STRONG, KILLPG]

every_trainer = pytest.mark.parametrize("trainer", TRAINERS.values(), ids=TRAINERS)


def assert_only_the_owner(owner, mark):
    pid = owner.process.pid
    wait_until(lambda: marked_processes(mark) == [pid], "only the owner of the tree is left")


@pytest.mark.parametrize("strategy", STRONG)
@every_trainer
def test_a_rung_alone_ends_every_process_of_every_trainer(strategy, trainer, mark):
    with owned(mark, trainer, DEAF, allow=[strategy]) as owner:
        assert owner.strategies == [strategy]
        assert owner.ask("living") == {"living": True}
        owner.kill_all()
        assert_only_the_owner(owner, mark)


@pytest.mark.parametrize("trainer", IN_GROUP.values(), ids=IN_GROUP)
def test_process_groups_alone_end_what_stayed_in_them(trainer, mark):
    with owned(mark, trainer, DEAF, allow=[KILLPG]) as owner:
        assert owner.places == {"boxes": []}
        assert owner.ask("living") == {"living": None}
        owner.ask("kill")
        assert_only_the_owner(owner, mark)


@every_trainer
def test_all_rungs_together_end_every_trainer(trainer, mark):
    with owned(mark, trainer, trainer) as owner:
        assert owner.strategies == [
            strategy for strategy in KILL_STRATEGIES if strategy in owner.strategies
        ]
        owner.kill_all()
        assert_only_the_owner(owner, mark)


@pytest.mark.parametrize("strategy", STRONG)
def test_zombies_do_not_count_as_living(strategy, mark):
    with owned(mark, SLEEPER, allow=[strategy]) as owner:
        owner.ask("kill")
        wait_until(lambda: not owner.ask("living")["living"], "it is dead, though nobody reaped it")
        stat = Path(f"/proc/{owner.pids[0]}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "it is a zombie")
        assert not owner.ask("living")["living"]


@needs(SWEEP)
def test_a_process_lives_on_after_its_first_thread(mark):
    code = (
        "import ctypes, os, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "os.write(1, b'ready\\n')\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with owned(mark, code, allow=[SWEEP]) as owner:
        stat = Path(f"/proc/{owner.pids[0]}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "it looks dead")
        assert owner.ask("living") == {"living": True}
        owner.kill_all()


def test_removing_leaves_no_directory_and_no_descriptor(mark):
    with owned(mark, DAEMON, SLEEPER, limits=[[1 << 30, 1.0, 100]] * 2) as owner:
        owner.kill_all()
        owner.ask("remove")
        assert not boxes_left(owner)
        assert owner.ask("held") == {"more": []}


def test_removing_a_cage_that_is_not_empty_neither_raises_nor_hurts(mark):
    with owned(mark, SLEEPER) as owner:
        assert owner.ask("remove") == {"done": None}
        assert owner.ask("remove") == {"done": None}
        # the box has no lock now: a tree that another test opens may remove it with its process
        assert owner.pids[0] in marked_processes(mark) or not boxes_left(owner)
        owner.ask("kill")  # the weaker strategies know it still
        if SWEEP in owner.strategies:
            assert_only_the_owner(owner, mark)


@needs(CGROUP_KILL)
def test_the_next_cage_ends_what_a_killed_owner_left(mark):
    with owned(mark, DAEMON, SLEEPER, allow=[CGROUP_KILL]) as owner:
        wait_until(lambda: len(marked_processes(mark)) == 3, "owner, sleeper and daemon live")
        owner.die()  # from now on any tree of this machine that is opened ends its boxes
        open_process_tree("next", 1, allow=[CGROUP_KILL]).remove()
        assert_no_survivor(mark)
        wait_until(lambda: not boxes_left(owner), "its boxes are removed")


@needs(CGROUP_KILL)
def test_the_next_cage_leaves_that_of_a_living_owner_alone(mark):
    with owned(mark, SLEEPER, allow=[CGROUP_KILL]) as owner:
        running = marked_processes(mark)
        open_process_tree("next", 1, allow=[CGROUP_KILL]).remove()
        assert marked_processes(mark) == running
        assert owner.ask("living") == {"living": True}


def test_a_machine_without_any_of_it_still_gives_a_cage(monkeypatch):
    """As on another Unix: no cgroups, no /proc, no prctl, no pidfd."""
    monkeypatch.setattr("trainshed.engines.processes.cgroup.own_directory", lambda *_: None)
    monkeypatch.setattr("trainshed.engines.processes.tree.can_list", lambda: False)
    monkeypatch.setattr(tree, "_prctl", lambda *_: False)
    monkeypatch.delattr(os, "pidfd_open")
    bare = open_process_tree("bare", 1)
    assert bare.strategies == (KILLPG,)
    assert bare.living() is None
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", SLEEPER], {}, setsid=True)
    bare.add_replica(0, pid)
    assert bare.enter(0)
    bare.kill()
    assert os.waitpid(pid, 0)[1] == 9
    assert bare.usage(0).memory_bytes is None
    bare.remove()


def test_a_group_s_number_that_now_is_a_stranger_s_is_not_killed(mark):
    tree = open_process_tree("strangers", 1, allow=[KILLPG])
    with owned(mark, SLEEPER) as owner:
        tree.add_replica(0, owner.pids[0])  # leads its group, and is no child of this process
        tree.kill()
        assert owner.ask("living") == {"living": True}
        assert owner.pids[0] in marked_processes(mark)
        owner.kill_all()
