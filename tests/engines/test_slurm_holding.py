"""Allocations that are kept for the next attempt: offered, taken back, never doubled."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from engines import fake_slurm
from engines.slurm_world import (
    KEY,
    NAME,
    ORDER,
    claim,
    eventually,
    exit_of,
    gpu_claim,
    interrupt,
    launched,
    plan_of,
    until,
    world,
)
from trainshed.engines.slurm import attempt as slurm_attempt
from trainshed.engines.slurm import holding
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.engines.supervise.record.records import Decided
from trainshed.engines.warden import hold
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.stopping import StopOrder, StopReason

__all__ = ["world"]

SECOND = AttemptKey(KEY.uid, 2)
HOLD_S = 600
KILLED = exit_of(signal=9)
AGAIN = StopOrder(grace_s=0.0, reason=StopReason.AGAIN)
END = StopOrder(grace_s=1.0, reason=StopReason.END)
PAUSE = StopOrder(grace_s=1.0, reason=StopReason.PAUSE)


class Launcher:
    """What keeps the nodes of an attempt that has ended, as a thread."""

    def __init__(self, folder):
        self.folder, self.next = folder, None
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _keep(self):
        self.next = hold.await_next_attempt(self.folder)

    def end(self):
        """The folder of what it runs next."""
        self._thread.join(20.0)
        assert not self._thread.is_alive()
        return self.next and self.next.path


@pytest.fixture
def keeps(world):
    """Starts launchers, and ends those that a test has left."""
    launchers = []

    def keep(key=KEY):
        launchers.append(Launcher(world.attempt(key)))
        return launchers[-1]

    yield keep
    for launcher in launchers:
        launcher.folder.make()
        hold.release(launcher.folder)
        launcher.end()


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(holding, "TAKE_S", 2.0)


def failed(world, monkeypatch, **options):
    """An engine whose attempt runs, and has failed so that it may be tried again."""
    engine = launched(world, **{"hold_s": HOLD_S, **options})
    monkeypatch.setattr(sys, "argv", [engine._submitter.archive])
    world.slurm.set("1", "RUNNING", nodes="n1")
    world.begin()
    until(engine, Phase.READY)
    world.record(Decided(137, "it ended"), KILLED)
    return engine


def is_held(world, key=KEY):
    return os.path.lexists(f"{world.attempt(key).path}/held")


def ended(engine, key=KEY):
    observation = until(engine, Phase.ENDED, Phase.LOST, key=key)
    assert observation.phase is Phase.ENDED, observation
    return observation


def keep_allocation(world, monkeypatch, keeps, **options):
    engine = failed(world, monkeypatch, **options)
    launcher = keeps()
    eventually(lambda: is_held(world))
    assert ended(engine).outcome.exit_code == 137
    engine.stop(KEY, AGAIN)
    return engine, launcher


def submissions(world):
    return [argv for argv in world.slurm.called("sbatch") if "--version" not in argv]


def test_the_next_attempt_goes_into_the_kept_allocation(world, monkeypatch, keeps):
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    eventually(lambda: world.slurm.rows["1"]["comment"] == f"{KEY} kept vision")
    engine.launch(SECOND, plan_of(), claim())
    assert launcher.end() == world.attempt(SECOND).path
    assert len(submissions(world)) == 1
    assert world.slurm.rows["1"]["comment"] == f"{SECOND} vision"
    assert Path(world.attempt(SECOND).path, "claim").read_text("utf-8") == "1 n1\n"
    observation = until(engine, Phase.STARTING, key=SECOND)
    assert observation.placed_how == "in the allocation kept from attempt 1 (Slurm job 1)"
    assert [seat.node for seat in observation.placed] == ["n1"]
    assert world.slurm.rows["1"]["state"] == "RUNNING"


def test_the_next_attempt_asks_for_the_gpus_of_the_kept_allocation(world, monkeypatch, keeps):
    """The cluster has two words for one type, and only nodes of the other one are free."""
    texts = fake_slurm.NODES.replace("State=IDLE+DRAIN", "State={state}")
    texts = texts.replace("gpu:t4:4(S:0-1),nic:1", "gpu:tesla_t4:4")
    monkeypatch.setattr(fake_slurm, "NODES", texts.format(state="IDLE"))
    job = gpu_claim("NVIDIA_TESLA_T4")
    engine, launcher = keep_allocation(world, monkeypatch, keeps, job=job)
    assert "--gpus-per-task=tesla_t4:2" in submissions(world)[-1]
    monkeypatch.setattr(fake_slurm, "NODES", texts.format(state="ALLOCATED"))
    engine.close()
    world.engine(hold_s=HOLD_S).launch(SECOND, plan_of(), job)
    assert launcher.end() == world.attempt(SECOND).path
    assert len(submissions(world)) == 1


def test_an_end_is_believed_only_when_slurm_has_the_job_running_after_it(world, monkeypatch, keeps):
    engine = failed(world, monkeypatch)
    world.slurm.set("1", "PREEMPTED")
    keeps()
    eventually(lambda: is_held(world))
    assert until(engine, Phase.ENDED, Phase.LOST).phase is Phase.LOST


@pytest.mark.parametrize(
    ("end", "order", "is_kept"),
    [
        (KILLED, None, True),
        (exit_of(200), None, True),
        (exit_of(0), None, False),
        (exit_of(3), None, False),  # it would fail again
        (exit_of(signal=15), None, False),  # the cluster may want its nodes
        (exit_of(signal=15, interrupted=True), None, False),
        (exit_of(signal=15, interrupted=True), "hang", True),
        (exit_of(signal=15, interrupted=True), "again", True),
        (exit_of(signal=15, interrupted=True), "cancel", False),
        (exit_of(signal=15, interrupted=True), "timeout", False),
        (exit_of(signal=15, interrupted=True), "maintenance", False),
        (KILLED._replace(lost=True), None, False),
        (KILLED._replace(fault="no such program"), None, False),
    ],
)
def test_what_may_be_tried_again_is_kept(world, end, order, is_kept):
    launched(world, hold_s=HOLD_S)
    world.begin()
    world.record(end)
    if order:
        world.attempt().give_order(Order(1.0, order))
    assert bool(hold.hold_seconds(world.attempt())) is is_kept


def test_without_the_setting_nothing_is_kept(world):
    launched(world)
    world.begin()
    world.record(KILLED)
    assert hold.await_next_attempt(world.attempt()) is None
    assert not is_held(world)


def own_allocation(world, engine, launcher):
    """The second attempt has one of its own, and the first one's is given back."""
    engine.launch(SECOND, plan_of(), claim())
    assert launcher.end() is None
    assert len(submissions(world)) == 2
    assert world.slurm.rows["1"]["state"] == "CANCELLED"
    assert not Path(world.attempt(SECOND).path, "claim").exists()
    until(engine, Phase.WAITING, key=SECOND)


def test_never_with_a_node_that_takes_no_jobs(world, monkeypatch, keeps):
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    world.slurm.set("1", "RUNNING", nodes="n2")  # it is drained
    own_allocation(world, engine, launcher)


def test_never_with_a_node_that_an_attempt_was_lost_with(world, monkeypatch, keeps):
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    monkeypatch.setattr(engine._submitter, "_choose_excluded", lambda *_: ("n1",))
    own_allocation(world, engine, launcher)


def test_never_where_too_little_time_is_left(world, monkeypatch, keeps):
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    world.slurm.left = "1:00:00\n"
    own_allocation(world, engine, launcher)


def test_never_where_something_else_is_asked(world, monkeypatch, keeps):
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    monkeypatch.setattr(holding, "hash_request", lambda _: "another")
    own_allocation(world, engine, launcher)


def test_time_that_is_left_is_enough_for_what_may_still_run(world, monkeypatch, keeps):
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    world.slurm.left = "10:00\n"
    engine.launch(SECOND, plan_of(), claim(running_s_max=300.0))
    assert launcher.end() == world.attempt(SECOND).path
    assert len(submissions(world)) == 1


def test_an_order_that_nobody_takes_is_withdrawn(world, monkeypatch):
    """Its allocation has ended at that very moment."""
    engine = failed(world, monkeypatch)
    held = {"job": "1", "until_s": time.time() + HOLD_S, "archive": engine._submitter.archive}
    Path(world.attempt().path, "held").write_text(json.dumps(held))
    ended(engine)
    monkeypatch.setattr(holding, "TAKE_S", 0.1)
    engine.launch(SECOND, plan_of(), claim())
    assert len(submissions(world)) == 2
    names = {path.name for path in Path(world.attempt().path).iterdir()}
    assert {"withdrawn", "release"} <= names
    assert not {"next", "taken"} & names


@pytest.mark.parametrize("winner", ["launcher", "server"])
def test_one_of_the_two_wins_an_order(tmp_path, winner):
    folder = AttemptFolder(str(tmp_path / "7" / "1"))
    folder.make()
    Path(folder.path, "next").write_text("2")
    moves = {
        "launcher": lambda: hold._take_order(folder) is not None,
        "server": lambda: hold.rename_order(folder, hold.WITHDRAWN),
    }
    assert moves.pop(winner)()
    assert [move() for move in moves.values()] == [False]


@pytest.mark.parametrize("where", ["write_json", "_await_taken", "TakenAllocation"])
def test_a_server_that_is_killed_on_the_way_starts_it_once(world, monkeypatch, keeps, where):
    """Before the order, after it, and after it was taken."""
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    place = holding.KeptAllocations if where == "_await_taken" else holding
    with monkeypatch.context() as patch:
        patch.setattr(place, where, lambda *_args, **_more: interrupt())
        with pytest.raises(KeyboardInterrupt):
            engine.launch(SECOND, plan_of(), claim())
    after = world.engine(hold_s=HOLD_S)
    after.launch(SECOND, plan_of(), claim())
    assert launcher.end() == world.attempt(SECOND).path
    assert len(submissions(world)) == 1
    until(after, Phase.STARTING, key=SECOND)
    after.launch(SECOND, plan_of(), claim())
    assert len(submissions(world)) == 1


def test_a_job_that_is_over_keeps_nothing(world, monkeypatch, keeps):
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    engine.stop(KEY, END)
    assert launcher.end() is None
    assert world.slurm.rows["1"]["state"] == "CANCELLED"


def test_what_its_launcher_is_about_to_keep_is_waited_for(world, monkeypatch, keeps):
    """The end of an attempt is known before its launcher keeps anything."""
    engine = failed(world, monkeypatch)
    world.attempt().give_order(Order(1.0, "hang"))
    ended(engine)
    late = threading.Timer(0.2, keeps)
    late.start()
    engine.launch(SECOND, plan_of(), claim())
    late.join()
    assert len(submissions(world)) == 1


def test_one_that_comes_to_it_too_late_keeps_nothing(world, monkeypatch, keeps):
    """The next attempt waits in the queue for the end of this one."""
    engine = failed(world, monkeypatch)
    world.attempt().give_order(Order(1.0, "hang"))
    ended(engine)
    monkeypatch.setattr(holding, "TAKE_S", 0.1)
    engine.launch(SECOND, plan_of(), claim())
    assert keeps().end() is None
    assert len(submissions(world)) == 2


@pytest.mark.parametrize("order", [END, PAUSE])
def test_nor_what_its_launcher_was_about_to_keep(world, monkeypatch, keeps, order):
    engine = failed(world, monkeypatch)
    engine.stop(KEY, order)
    assert keeps().end() is None


def test_an_allocation_that_the_next_attempt_has_is_not_given_back_for_the_last(
    world, monkeypatch, keeps
):
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    engine.launch(SECOND, plan_of(), claim())
    launcher.end()
    engine.stop(KEY, AGAIN)
    eventually(lambda: not engine._orders.pending)
    assert not world.slurm.called("scancel")
    assert world.slurm.rows["1"]["state"] == "RUNNING"


def test_what_is_kept_is_no_leftover_until_its_time_is_over(world, monkeypatch, keeps):
    engine, _ = keep_allocation(world, monkeypatch, keeps)
    assert [attempt.living for attempt in engine.list_attempts()] == [()]
    path = Path(world.attempt().path, "held")
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "until_s": 0}))
    monkeypatch.setattr(slurm_attempt, "SETTLE_S", 0.0)
    assert [len(attempt.living) for attempt in engine.list_attempts()] == [1]


def test_to_forget_a_job_gives_back_what_is_kept(world, monkeypatch, keeps):
    engine, launcher = keep_allocation(world, monkeypatch, keeps)
    eventually(lambda: not engine._orders.pending)
    assert not engine.forget(KEY.uid)
    assert launcher.end() is None
    eventually(lambda: engine.forget(KEY.uid))
    assert not Path(world.attempt().job).exists()


@pytest.mark.parametrize("text", ["", "7", "[]", '{"job": 1}', '{"job": "x", "until_s": 1}'])
def test_what_a_program_has_written_there_is_not_believed(world, monkeypatch, text):
    monkeypatch.setattr(holding, "TAKE_S", 0.05)
    engine = failed(world, monkeypatch)
    Path(world.attempt().path, "held").write_text(text)
    assert not engine._holding.keeps(world.attempt())
    engine.launch(SECOND, plan_of(), claim())
    assert len(submissions(world)) == 2


def test_somebody_else_s_job_is_not_cancelled_for_one_that_is_said_to_be_kept(world, monkeypatch):
    engine = failed(world, monkeypatch)
    other = world.slurm.add(NAME, "another", "RUNNING")
    held = {"job": other, "until_s": time.time() + HOLD_S, "archive": engine._submitter.archive}
    Path(world.attempt().path, "held").write_text(json.dumps(held))
    engine.stop(KEY, ORDER)
    assert world.slurm.rows[other]["state"] == "RUNNING"
