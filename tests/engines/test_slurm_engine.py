"""A Slurm that is away or refuses, a damaged spool, and news of attempts."""

import shutil
import time
from pathlib import Path

import pytest

from engines.slurm_world import (
    KEY,
    NAME,
    ORDER,
    answers,
    begun,
    claim,
    eventually,
    exit_of,
    launched,
    plan_of,
    until,
    world,
)
from trainshed.engines.slurm import orders, poll
from trainshed.engines.slurm.commands import CommandResult
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.explanation import Reason
from trainshed.model.faults import EngineFault, UsageFault, is_transient

__all__ = ["world"]


def test_slurm_away_is_said_with_since_when_and_heals(world):
    engine = begun(world)
    world.slurm.is_away = True
    away = until(engine, Phase.UNKNOWN)
    assert away.waits.reason is Reason.ENGINE_AWAY
    assert "since" in away.waits.message
    assert engine.health().reason is Reason.ENGINE_AWAY
    assert "since" in engine.health().message
    assert engine.fleet()
    with pytest.raises(OSError, match="Unable to contact") as caught:
        engine.launch(AttemptKey(7, 1), plan_of(), claim())
    assert is_transient(caught.value)
    world.slurm.is_away = False
    until(engine, Phase.READY)
    assert eventually(lambda: engine.health() is None)


@pytest.mark.parametrize(
    "words",
    [
        "sbatch: error: slurm_receive_msg: Protocol authentication error",
        "squeue: error: If munged is up, restart with --num-threads=10",
        "slurm_load_jobs error: Socket timed out on send/recv operation",
    ],
)
def test_what_keeps_slurm_away_from_the_start_is_said_and_heals(world, words):
    world.slurm.is_away, world.slurm.away = True, CommandResult(1, err=words)
    engine = world.engine()
    why = eventually(engine.health)
    assert why.reason is Reason.ENGINE_AWAY
    assert "not answered since" in why.message
    assert words in why.message
    with pytest.raises(OSError, match="since") as caught:
        engine.launch(KEY, plan_of(), claim())
    assert is_transient(caught.value)
    world.slurm.is_away = False
    assert eventually(lambda: engine.health() is None)
    engine.launch(KEY, plan_of(), claim())
    until(engine, Phase.WAITING)
    assert list(world.slurm.rows) == ["1"]


@pytest.mark.parametrize(
    "words", ["Rate limit exceeded, please retry later", "Message receive failure"]
)
def test_a_submission_for_which_the_controller_has_no_time_is_repeated(world, words):
    """Since 23.11 a controller may limit how many requests a user sends in a second."""
    engine = world.engine()
    world.slurm.refusal = f"sbatch: error: Batch job submission failed: {words}"
    with pytest.raises(OSError, match=words) as caught:
        engine.launch(KEY, plan_of(), claim())
    assert is_transient(caught.value)
    world.slurm.refusal = ""
    engine.launch(KEY, plan_of(), claim())
    until(engine, Phase.WAITING)
    assert list(world.slurm.rows) == ["1"]


@pytest.mark.parametrize(
    "words", ["Permission denied (publickey).", "connect to host there port 22: No such host"]
)
def test_a_login_node_that_refuses_is_said_with_since_when(world, words):
    world.slurm.is_away, world.slurm.away = True, CommandResult(255, err=words)
    engine = world.engine(ssh="user@there", spool_there="/there")
    why = eventually(engine.health)
    assert why.reason is Reason.ENGINE_AWAY
    assert "not answered since" in why.message
    assert words in why.message


def test_a_spool_that_is_away_costs_no_job(world):
    engine = world.engine()
    aside, ours = world.folder / "aside", world.spool / "here"
    ours.rename(aside)
    (ours / "jobs" / str(KEY.uid)).mkdir(parents=True)  # as whoever writes a job's log has it made
    with pytest.raises(OSError, match="is missing or empty") as caught:
        engine.launch(KEY, plan_of(), claim())
    assert is_transient(caught.value)
    assert world.slurm.rows == {}
    shutil.rmtree(ours)
    aside.rename(ours)
    engine.launch(KEY, plan_of(), claim())
    until(engine, Phase.WAITING)
    assert list(world.slurm.rows) == ["1"]


def test_an_old_slurm_is_refused_in_health(world):
    world.slurm.version = "slurm 20.11.9"
    engine = world.engine()
    problem = eventually(engine.health)
    assert problem.message == "Slurm must be 22.05 or newer, got 20.11"


def test_a_job_named_like_ours_is_not_taken_for_ours(world):
    engine = begun(world)
    planted = world.slurm.add(NAME, str(KEY), "RUNNING")
    world.slurm.add("ts-elsewhere-5", "5/1", "RUNNING")
    engine.stop(KEY, ORDER)
    eventually(lambda: len(world.slurm.called("scancel")))
    assert world.slurm.rows[planted]["state"] == "RUNNING"
    assert {attempt.key for attempt in engine.list_attempts()} == {KEY}


def test_a_claim_that_was_planted_is_refused_with_its_path(world):
    engine = world.engine()
    folder = world.attempt()
    folder.make()
    Path(folder.path, "claim").touch()
    with pytest.raises(EngineFault, match=f"{folder.path}/claim exists already"):
        engine.launch(KEY, plan_of(), claim())
    assert not world.slurm.rows


def test_links_in_the_spool_are_not_followed(world, tmp_path):
    engine = world.engine()
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "1").mkdir(parents=True)
    job = Path(world.attempt().job)
    job.symlink_to(elsewhere)
    with pytest.raises(EngineFault, match=f"{job}: it is a link"):
        engine.launch(KEY, plan_of(), claim())
    with pytest.raises(EngineFault, match="is a link"):
        engine.stop(KEY, ORDER)
    assert engine.observe([KEY])[0].phase is Phase.UNKNOWN
    assert list((elsewhere / "1").iterdir()) == []


def test_a_spool_that_is_not_there_or_a_link_is_said(world):
    with pytest.raises(UsageFault, match="must be a folder that server and nodes share"):
        world.engine(spool=str(world.folder / "nowhere"))
    (world.spool / "here").symlink_to(world.folder)
    with pytest.raises(UsageFault, match="is a link"):
        world.engine()


def test_news_come_when_records_grow(world):
    engine = begun(world)
    engine._poller._news = lambda: None  # Slurm says nothing of it
    news = []
    engine.listen(news.extend)
    world.record(exit_of(0))
    eventually(lambda: KEY in news)


def test_at_rest_slurm_is_asked_seldom(world):
    engine = world.engine(poll_s=3600)
    eventually(lambda: world.slurm.called("squeue"))
    before = len(world.slurm.called("squeue"))
    engine.observe([KEY])
    time.sleep(10 * poll.FAST_S)  # what it would wait if something moved, ten times
    assert len(world.slurm.called("squeue")) == before


def test_the_configuration_is_read_at_the_start_and_after_an_outage(world, monkeypatch):
    monkeypatch.setattr(poll, "NODES_S", 0.0)
    engine = world.engine()

    def count(what):
        return sum(what in words for words in world.slurm.called("scontrol"))

    eventually(lambda: count("node") > 2)
    assert count("config") == 1
    world.slurm.is_away = True
    eventually(engine.health)
    world.slurm.is_away = False
    number = count("node")
    eventually(lambda: engine.health() is None and count("node") > number + 2)
    tried = count("config")
    assert tried > 1
    eventually(lambda: count("node") > number + 4)
    assert count("config") == tried


def test_another_expected_start_of_a_waiting_job_is_no_news(world):
    engine = launched(world)
    world.slurm.set("1", "PENDING", "Priority", "")
    until(engine, Phase.WAITING)
    poller, news = engine._poller, []
    poller.close()
    poller._poll()
    poller._news = lambda: news.append(poller.last_answer.number)
    rows = poller.last_answer.rows["1"]
    for start_s in (100.0, 200.0, 300.0):
        poller._queue.jobs = lambda at=start_s: [row._replace(start_s=at) for row in rows]
        poller._poll()
    assert poller.last_answer.rows["1"][0].start_s == 300.0
    assert news == []


def test_only_attempts_that_may_have_begun_are_looked_at_between_two_answers(world, monkeypatch):
    engine = launched(world)
    world.slurm.set("1", "PENDING", "Priority", "")
    until(engine, Phase.WAITING)
    engine._poller.close()
    engine._poller._poll()
    looked_at = []
    monkeypatch.setattr(orders, "_has_grown", looked_at.append)
    assert not engine._orders.work(engine._poller)
    with monkeypatch.context() as patch:
        patch.delattr(type(engine._attempts), "list_all")  # there may be thousands
        for _ in range(3):
            assert not engine._orders.work(engine._poller)
    assert looked_at == []
    world.slurm.set("1", "RUNNING")
    engine._poller._poll()
    engine._orders.work(engine._poller)
    assert [attempt.key for attempt in looked_at] == [KEY]


def test_what_cannot_be_read_is_unknown_however_often_it_is_asked_for(world):
    engine = begun(world)
    records_file = Path(world.attempt().records)
    aside = records_file.with_suffix(".aside")
    records_file.rename(aside)
    records_file.symlink_to(records_file)
    phases = {engine.observe([KEY])[0].phase for _ in range(3)}
    records_file.unlink()
    aside.rename(records_file)
    assert phases == {Phase.UNKNOWN}
    until(engine, Phase.READY)


@pytest.mark.parametrize("name", ["slurm.json", "slurm-end.json", "stop"])
@pytest.mark.parametrize("text", ["[]", "{}", "7", '{"since_s": 0, "job": 5, "parts": []}'])
def test_what_a_program_has_written_in_its_folder_holds_up_no_other(world, name, text):
    begun(world).close()
    Path(world.attempt().path, name).write_text(text)
    engine, other = world.engine(), AttemptKey(6, 1)
    engine.stop(KEY, ORDER)
    engine.launch(other, plan_of(), claim())
    until(engine, Phase.WAITING, key=other)
    engine.stop(other, ORDER)
    until(engine, Phase.ENDED, key=other)
    eventually(lambda: world.slurm.rows["2"]["state"] == "CANCELLED")


def test_work_that_fails_keeps_nobody_from_asking(world):
    engine = launched(world)
    engine._poller._work = lambda: 1 / 0
    answers(engine, 3)
