"""Orders to stop, forget and fence attempts of the Slurm engine."""

import json
import os
from pathlib import Path

import pytest

from engines.slurm_world import (
    DEADLINE_S,
    KEY,
    ORDER,
    answers,
    begun,
    claim,
    eventually,
    exit_of,
    launched,
    no_spare_time,
    plan_of,
    set_forward,
    until,
    world,
)
from trainshed.engines.slurm import attempt as slurm_attempt
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.model.attempt import AttemptKey, Loss, Phase
from trainshed.model.faults import EngineFault

__all__ = ["no_spare_time", "set_forward", "world"]


def test_stopped_before_it_was_launched_it_never_starts(world):
    engine = world.engine()
    engine.stop(KEY, ORDER)
    engine.launch(KEY, plan_of(), claim())
    assert until(engine, Phase.ENDED).outcome.interrupted
    assert not world.slurm.rows


def test_stopped_while_it_waits_it_ends_at_once_and_leaves_the_queue(world):
    engine = launched(world)
    engine.stop(KEY, ORDER)
    assert until(engine, Phase.ENDED).outcome.interrupted
    eventually(lambda: world.slurm.rows["1"]["state"] == "CANCELLED")
    with pytest.raises(FileExistsError):
        world.begin()


def test_an_order_that_comes_as_a_job_begins_does_not_kill_its_launcher(world):
    """It was cancelled before it could record an end, and the attempt was lost."""
    engine = launched(world)
    claim_file = Path(world.attempt().path, "claim")
    claim_file.write_text("1 n1\n")  # its launcher has recorded nothing yet
    engine.stop(KEY, ORDER)
    until(engine, Phase.WAITING, Phase.STARTING)
    world.slurm.set("1", "RUNNING")
    until(engine, Phase.STARTING)
    assert not world.slurm.called("scancel")
    claim_file.unlink()
    world.begin()
    eventually(lambda: ["--batch", "--signal=USR1", "1"] in world.slurm.called("scancel"))
    world.record(exit_of(signal=15, interrupted=True))
    assert until(engine, Phase.ENDED).outcome.interrupted


def test_stopped_while_it_runs_its_launcher_is_asked_to_look(world):
    engine = begun(world)
    engine.stop(KEY, ORDER)
    eventually(
        lambda: ["--batch", "--signal=USR1", "1"] in map(list, world.slurm.called("scancel"))
    )
    assert world.slurm.rows["1"]["state"] == "RUNNING"
    assert AttemptFolder(world.attempt().path).stop_order().grace_s == ORDER.grace_s


@pytest.mark.usefixtures("no_spare_time")
def test_one_that_does_not_obey_is_cancelled_also_by_the_next_server(world):
    begun(world).close()
    world.attempt().give_order(Order(grace_s=0.1))
    world.engine()
    eventually(lambda: world.slurm.rows["1"]["state"] == "CANCELLED")


def test_a_clock_that_is_set_forward_ends_no_time_of_grace(world, monkeypatch):
    engine = begun(world)
    set_forward(monkeypatch)
    engine.stop(KEY, ORDER)
    answers(engine, 5)
    set_forward(monkeypatch)
    answers(engine, 5)
    assert ["1"] not in map(list, world.slurm.called("scancel"))
    assert world.slurm.rows["1"]["state"] == "RUNNING"


def test_a_clock_that_is_set_forward_gives_up_no_job_that_slurm_does_not_show_yet(
    world, monkeypatch
):
    engine = begun(world)
    engine._attempts.get(KEY).lost_after_s = 0.0
    set_forward(monkeypatch)
    world.slurm.forget("1")
    assert answers(engine, 5).phase is Phase.READY


def test_forget_leaves_nothing_and_refuses_what_lives(world):
    engine = begun(world)
    assert not engine.forget(KEY.uid)
    world.record(exit_of(0))
    until(engine, Phase.ENDED)
    assert engine.forget(KEY.uid)  # its job is about to go by itself
    assert not Path(world.attempt().job).exists()
    world.slurm.set("1", "COMPLETED")
    assert engine.list_attempts() == []  # though Slurm shows it for a while


@pytest.mark.usefixtures("no_spare_time")
def test_forget_refuses_what_nobody_knows(world):
    engine = begun(world)
    engine._attempts.get(KEY).lost_after_s = 3600.0
    world.slurm.forget("1")
    until(engine, Phase.UNKNOWN)
    assert not engine.forget(KEY.uid)
    assert Path(world.attempt().plan).exists()


def test_an_administrators_word_ends_what_nobody_can_know(world):
    engine = begun(world)
    with pytest.raises(EngineFault, match="in Slurm: stop it instead"):
        engine.fence(KEY)
    world.slurm.is_away = True
    until(engine, Phase.UNKNOWN)
    engine.fence(KEY)
    assert until(engine, Phase.LOST).loss is Loss.INFRA


def test_who_only_looks_asks_and_changes_nothing(world):
    begun(world).close()
    world.engines[-1]._poller._thread.join(DEADLINE_S)
    other = AttemptKey(6, 1)
    engine = world.engine()
    engine.launch(other, plan_of(), claim())
    engine.close()
    engine._poller._thread.join(DEADLINE_S)
    for key in (KEY, other):
        world.attempt(key).give_order(Order(grace_s=0.0))
        os.utime(world.attempt(key).order, (0, 0))
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in world.spool.rglob("*"))
    calls = len(world.slurm.calls)
    looks = world.engine(serves=False)
    assert {attempt.key for attempt in looks.list_attempts()} == {KEY, other}
    assert looks._poller._thread is None
    assert [name for name, *_ in world.slurm.calls[calls:]] == ["squeue"]
    after = sorted((str(path), path.lstat().st_mtime_ns) for path in world.spool.rglob("*"))
    assert after == before


def test_an_order_is_carried_out_for_a_job_whose_number_was_lost_with_a_server(world):
    launched(world).close()
    path = Path(world.attempt().path, "slurm.json")
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "job": ""}))
    world.attempt().give_order(Order(grace_s=1.0))
    world.engine()
    eventually(lambda: world.slurm.rows["1"]["state"] == "CANCELLED")


def test_an_order_for_what_was_never_submitted_is_done_some_day(world, monkeypatch):
    engine = world.engine()
    world.slurm.refusal = "sbatch: error: Invalid account"
    with pytest.raises(EngineFault):
        engine.launch(KEY, plan_of(), claim())
    monkeypatch.setattr(slurm_attempt, "SETTLE_S", -1.0)
    engine.stop(KEY, ORDER)
    until(engine, Phase.ENDED)
    eventually(lambda: not engine._orders.pending)
