"""What the Slurm engine reports of an attempt: waiting, running, its end or its loss."""

import json
from pathlib import Path

import pytest

from engines.slurm_world import (
    KEY,
    NAME,
    begun,
    claim,
    eventually,
    exit_of,
    launched,
    no_spare_time,
    plan_of,
    until,
    world,
)
from trainshed.engines.slurm import attempt as slurm_attempt
from trainshed.engines.slurm import orders
from trainshed.engines.supervise.record.records import Decided, Ended
from trainshed.model.attempt import AttemptKey, Loss, Outcome, Phase
from trainshed.model.explanation import Reason
from trainshed.model.resources import Seat
from trainshed.model.roles import Role

__all__ = ["no_spare_time", "world"]


def test_it_waits_with_the_words_of_slurm(world):
    engine = launched(world)
    world.slurm.set("1", "PENDING", "JobHeldUser", "")
    observations = eventually(
        lambda: [o for o in engine.observe([KEY]) if o.waits and o.waits.reason is Reason.HELD]
    )
    assert observations[0].phase is Phase.WAITING


def test_where_it_is_placed_is_said_once_by_the_claim(world):
    """squeue lists nodes before a job has them all, and fewer of them while it ends."""
    engine = launched(world)
    world.slurm.set("1", "RUNNING", nodes="n9")
    until(engine, Phase.STARTING)
    assert not engine.observe([KEY])[0].placed
    world.begin()
    seats = (Seat(role=Role.PRIMARY, index=0, node="n1", engine="slurm"),)
    assert eventually(lambda: engine.observe([KEY])[0].placed) == seats
    world.slurm.set("1", "COMPLETING", nodes="")
    world.record(exit_of(0))
    assert until(engine, Phase.ENDED).placed == seats


def test_suspended_it_stands_still(world):
    engine = begun(world)
    world.slurm.set("1", "SUSPENDED")
    observation = eventually(lambda: [o for o in engine.observe([KEY]) if o.waits])[0]
    assert (observation.phase, observation.waits.reason) == (Phase.READY, Reason.HELD)


def test_a_quick_end_says_where_it_was(world):
    engine = launched(world)
    world.begin()
    world.record(exit_of(0))
    (seat,) = until(engine, Phase.ENDED).placed
    assert (seat.role, seat.node, seat.engine) == (Role.PRIMARY, "n1", "slurm")


def test_an_end_with_a_code_is_the_end(world):
    engine = begun(world)
    world.record(exit_of(42))
    assert until(engine, Phase.ENDED, Phase.LOST).outcome.exit_code == 42


@pytest.mark.parametrize(
    ("state", "loss", "words"),
    [
        ("PREEMPTED", Loss.MAINTENANCE, "preempted"),
        ("TIMEOUT", Loss.LIMIT, "time limit"),
        ("DEADLINE", Loss.LIMIT, "time limit"),
        ("NODE_FAIL", Loss.INFRA, "NODE_FAIL for the job 1 of the attempt on n1"),
        (
            "CANCELLED",
            Loss.OPERATOR,
            "someone other than this server cancelled the Slurm job 1 (scancel) at 2026-11-30",
        ),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_a_signal_that_nobody_of_ours_sent_is_explained_by_slurm(
    world, state, loss, words, recorded
):
    engine = begun(world)
    if recorded:
        world.record(exit_of(signal=15, interrupted=True))
        assert engine.observe([KEY])[0].phase is Phase.READY  # not believed yet
    world.slurm.set("1", state)
    observation = until(engine, Phase.ENDED, Phase.LOST)
    assert (observation.phase, observation.loss) == (Phase.LOST, loss)
    assert words in observation.fault
    world.slurm.forget("1")
    assert until(world.engine(), Phase.ENDED, Phase.LOST) == observation


@pytest.mark.parametrize(
    ("message", "loss"),
    [
        ("n1 is ending its processes", Loss.MAINTENANCE),
        ("n1 is to be left", Loss.MAINTENANCE),  # as launchers of an earlier version say it
        ("", Loss.INFRA),
    ],
)
def test_what_ends_within_the_grace_of_a_preemption_is_maintenance(world, message, loss):
    engine = begun(world)
    world.record(exit_of(143, interrupted=True, message=message))
    world.slurm.set("1", "FAILED")
    observation = until(engine, Phase.ENDED, Phase.LOST)
    assert (observation.phase, observation.loss) == (Phase.LOST, loss)


def test_a_program_that_killed_itself_has_ended_so(world):
    engine = begun(world)
    world.record(exit_of(signal=11))
    world.slurm.set("1", "COMPLETED")
    assert until(engine, Phase.ENDED, Phase.LOST).outcome.exit_code == 139


def test_the_nodes_of_a_lost_attempt_are_avoided_by_the_next(world):
    engine = begun(world)
    world.slurm.set("1", "NODE_FAIL", nodes="n[1-2]")
    until(engine, Phase.LOST)
    engine.launch(AttemptKey(KEY.uid, 2), plan_of(), claim())
    assert "--exclude=n1,n2" in world.slurm.called("sbatch")[-1]


@pytest.mark.parametrize(
    ("ended", "nodes"),
    [
        ({"nodes": ("n2",)}, ("n2",)),
        ({"reached": ("n1", "n3")}, ("n2",)),
        ({"reached": ("n1", "n2", "n3")}, ("n1",)),  # each node had some of its wardens
        ({}, ("n1",)),
    ],
)
def test_the_node_to_blame_for_a_recorded_loss_is_avoided(world, ended, nodes):
    """That of a lost warden, those without a warden, else that of the launcher."""
    engine = begun(world)
    Path(world.attempt().path, "claim").write_text("1 n[1-2] n3\n", encoding="ascii")
    world.record(Ended(Outcome(1, "it is lost"), fault="it is lost", lost=True, **ended))
    until(engine, Phase.LOST)
    engine.launch(AttemptKey(KEY.uid, 2), plan_of(), claim())
    (excluded,) = [w for w in world.slurm.called("sbatch")[-1] if w.startswith("--exclude=")]
    assert excluded == f"--exclude={','.join(nodes)}"


def test_a_program_that_failed_blames_no_node(world):
    engine = begun(world)
    world.record(exit_of(42))
    until(engine, Phase.ENDED)
    engine.launch(AttemptKey(KEY.uid, 2), plan_of(), claim())
    assert not [w for w in world.slurm.called("sbatch")[-1] if w.startswith("--exclude=")]


def test_a_batch_step_that_never_began_is_told_at_once_and_its_node_is_avoided(world):
    engine = launched(world, lost_after_s=3600)
    world.slurm.set("1", "FAILED", "NonZeroExitCode", "n1")
    observation = until(engine, Phase.LOST)
    assert observation.loss is Loss.INFRA
    assert "never began on n1 (Slurm says NonZeroExitCode)" in observation.fault
    engine.launch(AttemptKey(KEY.uid, 2), plan_of(), claim())
    assert "--exclude=n1" in world.slurm.called("sbatch")[-1]


@pytest.mark.parametrize(
    ("accounts", "who"),
    [
        ("CANCELLED by 0|1796015176", "root"),
        ("CANCELLED by 4000000001|1796015176", "the user 4000000001"),
        ("CANCELLED|1796015176", "someone other than this server"),
        ("CANCELLED by 0|Unknown", "someone other than this server"),  # the accounts lag behind
        ("", "someone other than this server"),
    ],
)
@pytest.mark.parametrize(("holds", "loss"), [(True, Loss.OPERATOR), (False, Loss.INFRA)])
def test_a_job_that_a_person_cancels_says_who_and_when(world, accounts, who, holds, loss):
    world.slurm.accounts = accounts
    engine = launched(world, hold_cancelled=holds)
    world.slurm.set("1", "RUNNING")
    world.begin()
    until(engine, Phase.READY)
    world.slurm.set("1", "CANCELLED")
    observation = until(engine, Phase.LOST)
    when = "2026-11-30 05:06:16Z"
    assert observation.fault == f"{who} cancelled the Slurm job 1 (scancel) at {when}"
    assert observation.loss is loss


@pytest.mark.usefixtures("no_spare_time")
@pytest.mark.parametrize(
    ("name", "recorded", "loss"),
    [
        (NAME, True, Loss.OPERATOR),
        (NAME, False, Loss.OPERATOR),
        ("the-same-number-of-another-job", True, None),
        ("the-same-number-of-another-job", False, Loss.INFRA),
    ],
)
def test_a_job_that_a_person_cancelled_while_no_server_ran_is_held(world, name, recorded, loss):
    """Slurm lists jobs that have ended for MinJobAge only; its accounts know them longer."""
    begun(world).close()
    if recorded:
        world.record(exit_of(signal=15, interrupted=True))
    world.slurm.accounts = "CANCELLED by 4000000001|1796015176"
    world.slurm.forget("1")
    world.slurm.names["1"] = name
    observation = until(world.engine(), Phase.LOST, Phase.ENDED)
    assert observation.loss is loss
    assert ("the user 4000000001 cancelled" in (observation.fault or "")) is (name == NAME)


DATABASE_DOWN = "sacct: error: Problem talking to the database: Connection refused"


@pytest.mark.usefixtures("no_spare_time")
def test_an_accounting_that_does_not_answer_is_asked_again_who_cancelled(world, monkeypatch):
    monkeypatch.setattr(orders, "_ACCOUNTS_S", 0.02)
    begun(world).close()
    world.slurm.sacct_error = DATABASE_DOWN
    world.slurm.forget("1")
    engine = world.engine()
    observation = eventually(lambda: [o for o in engine.observe([KEY]) if o.waits])[0]
    assert (observation.phase, observation.waits.reason) == (Phase.UNKNOWN, Reason.ENGINE_AWAY)
    assert "`sacct -j 1` shows the reason" in observation.waits.message
    # Slurm need not be polled every second
    assert not orders._is_changing(engine._attempts.get(KEY), ())
    world.slurm.accounts = "CANCELLED by 4000000001|1796015176"
    assert until(engine, Phase.LOST).loss is Loss.OPERATOR


@pytest.mark.usefixtures("no_spare_time")
def test_an_accounting_that_never_answers_is_given_up(world, monkeypatch):
    monkeypatch.setattr(orders, "_ACCOUNTS_S", 0.02)
    monkeypatch.setattr(slurm_attempt, "ACCOUNTS_S_MAX", 0.2)
    begun(world).close()
    world.slurm.sacct_error = DATABASE_DOWN
    world.slurm.forget("1")
    observation = until(world.engine(), Phase.LOST)
    assert observation.loss is Loss.INFRA
    assert "its accounting (sacct) does not answer" in observation.fault


def test_slurm_is_asked_once_who_cancelled_many_jobs(world):
    world.slurm.accounts = "CANCELLED by 4000000001|1796015176"
    engine, keys = world.engine(), [AttemptKey(uid, 1) for uid in (5, 6, 7)]
    for key in keys:
        engine.launch(key, plan_of(), claim())
        until(engine, Phase.WAITING, key=key)
    world.slurm.is_away = True
    for job in list(world.slurm.rows):
        world.slurm.set(job, "CANCELLED", nodes="")
    world.slurm.is_away = False
    for key in keys:
        assert "the user 4000000001" in until(engine, Phase.LOST, key=key).fault
    assert len(world.slurm.called("sacct")) == 1


def test_a_job_that_a_person_cancels_in_the_queue_says_so(world):
    engine = launched(world)
    world.slurm.set("1", "CANCELLED", nodes="")
    assert until(engine, Phase.LOST).loss is Loss.OPERATOR


def test_a_job_that_slurm_cancels_since_its_node_could_not_start_it_never_began(world):
    engine = launched(world)
    world.slurm.set("1", "CANCELLED", nodes="n1")
    observation = until(engine, Phase.LOST)
    assert observation.loss is Loss.INFRA
    assert "never began on n1" in observation.fault


@pytest.mark.usefixtures("no_spare_time")
def test_a_killed_launcher_blames_its_node(world):
    engine = begun(world)
    world.slurm.set("1", "FAILED", "RaisedSignal:9(Killed)", "n1")
    assert "launcher of the attempt was killed" in until(engine, Phase.LOST).fault
    engine.launch(AttemptKey(KEY.uid, 2), plan_of(), claim())
    assert "--exclude=n1" in world.slurm.called("sbatch")[-1]


@pytest.mark.usefixtures("no_spare_time")
def test_a_launcher_that_was_killed_without_memory_is_an_end_of_the_program(world):
    """With OOMKillStep the kernel kills launcher and program together: no node is to blame."""
    engine = begun(world)
    world.slurm.set("1", "OUT_OF_MEMORY", "OutOfMemory", "n1")
    observation = until(engine, Phase.ENDED, Phase.LOST)
    assert observation.outcome.exit_code == 137
    assert "out of memory (Slurm says OUT_OF_MEMORY)" in observation.outcome.message


@pytest.mark.usefixtures("no_spare_time")
def test_a_batch_step_that_slurm_kills_for_its_memory_is_an_end_of_the_program(world):
    """With OverMemoryKill, Slurm 22.05.8 reports the job as FAILED by JobLaunchFailure."""
    engine = begun(world)
    words = "slurmstepd-n1: error: Exceeded job memory limit\n"
    Path(world.attempt().words).write_text(words, "ascii")
    world.slurm.set("1", "FAILED", "JobLaunchFailure", "n1")
    observation = until(engine, Phase.ENDED, Phase.LOST)
    assert observation.outcome.exit_code == 137
    assert "out of memory (Slurm says Exceeded job memory limit)" in observation.outcome.message


@pytest.mark.usefixtures("no_spare_time")
def test_an_answer_without_the_job_is_no_loss(world):
    engine = begun(world)
    row = dict(world.slurm.rows["1"])
    engine._attempts.get(KEY).lost_after_s = 3600.0
    world.slurm.forget("1")
    until(engine, Phase.UNKNOWN)
    world.slurm.rows["1"] = row
    until(engine, Phase.READY)


@pytest.mark.usefixtures("no_spare_time")
def test_a_job_that_slurm_does_not_know_twice_and_that_says_nothing_is_lost(world):
    engine = begun(world)
    world.slurm.forget("1")
    observation = until(engine, Phase.LOST)
    assert observation.loss is Loss.INFRA


@pytest.mark.usefixtures("no_spare_time")
def test_what_a_controller_that_does_not_work_misses_is_not_lost(world):
    engine = begun(world)
    world.slurm.is_up = False
    world.slurm.forget("1")
    until(engine, Phase.UNKNOWN)
    number = engine._poller.last_answer.number
    eventually(lambda: engine.observe([KEY]) and engine._poller.last_answer.number > number + 5)
    assert engine.observe([KEY])[0].phase is Phase.UNKNOWN
    world.slurm.is_up = True
    until(engine, Phase.LOST)


def test_records_that_are_late_are_waited_for(world):
    engine = begun(world)
    engine._attempts.get(KEY).lost_after_s = 3600.0
    world.slurm.set("1", "COMPLETED")
    number = engine._poller.last_answer.number
    eventually(lambda: engine.observe([KEY]) and engine._poller.last_answer.number > number + 2)
    assert engine.observe([KEY])[0].phase is Phase.READY
    world.record(Decided(0, "it ended"), exit_of(0))
    assert until(engine, Phase.ENDED).outcome.exit_code == 0


def test_a_job_that_slurm_forgot_at_once_ends_by_its_records(world):
    engine = begun(world)
    world.slurm.forget("1")
    world.record(Decided(0, "it ended"), exit_of(0))
    assert until(engine, Phase.ENDED).outcome.exit_code == 0


def test_a_job_requeued_by_somebody_is_lost_and_cancelled(world):
    engine = begun(world)
    world.slurm.set("1", "PENDING", "BeginTime", "")
    observation = until(engine, Phase.LOST)
    assert "requeued" in observation.fault
    assert ("1",) in map(tuple, world.slurm.called("scancel"))


def test_an_unknown_word_is_unknown(world):
    engine = begun(world)
    world.slurm.set("1", "TELEPORTING")
    until(engine, Phase.UNKNOWN)
    world.slurm.set("1", "RUNNING")
    until(engine, Phase.READY)


def test_what_can_never_start_fails_with_slurms_words(world):
    engine = launched(world)
    world.slurm.set("1", "PENDING", "AccountNotAllowed", "")
    observation = until(engine, Phase.ENDED)
    assert "AccountNotAllowed" in observation.fault
    eventually(lambda: ("1",) in map(tuple, world.slurm.called("scancel")))


@pytest.mark.usefixtures("no_spare_time")
def test_an_attempt_whose_number_was_never_read_is_lost_once_slurm_has_forgotten_it(world):
    engine = launched(world)
    engine.close()
    world.begin()
    path = Path(world.attempt().path, "slurm.json")
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "job": "", "since_s": 0}))
    world.slurm.forget("1")
    assert "no longer knows" in until(world.engine(), Phase.LOST).fault
