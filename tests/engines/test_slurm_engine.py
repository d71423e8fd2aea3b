"""The engine of a cluster, before a Slurm that does what a test says."""

import json
import os
import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest

from engines.fake_slurm import FakeSlurm
from trainshed.engines.base import EngineContext, LaunchRefused, ReplicaShape
from trainshed.engines.slurm import attempt as slurm_attempt
from trainshed.engines.slurm import factory, poll, submit
from trainshed.engines.slurm.commands import CommandResult
from trainshed.engines.supervise.record import records
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.engines.supervise.record.records import Began, Decided, Ended, Ready
from trainshed.model.attempt import AttemptKey, Loss, Outcome, Phase, ReplicaExit
from trainshed.model.explanation import Reason
from trainshed.model.faults import EngineFault, UsageFault, is_transient
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.resources import Claim, Demand, GroupDemand, JobDemand, Seat
from trainshed.model.roles import Role
from trainshed.model.stopping import StopOrder

KEY = AttemptKey(4611686018427387904, 1)
NAME = f"ts-here-{KEY.uid}"
SECRET = "s3cr3t-of-the-server"
DEADLINE_S = 20.0
POLICY = (
    "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's "
    "size and/or time limits)"
)
ORDER = StopOrder(grace_s=30.0)


@pytest.fixture
def no_spare_time(monkeypatch):
    """What is given up after some seconds is given up at once."""
    monkeypatch.setattr(slurm_attempt, "SPARE_S", 0.0)


def eventually(look):
    deadline = time.monotonic() + DEADLINE_S
    while not (answer := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def claim(project="vision", **more):
    demand = Demand(vcpus=1, memory_gb=1.0)
    groups = (GroupDemand(role=Role.PRIMARY, count=1, each=demand),)
    return Claim(
        engine="slurm", demand=JobDemand(region=None, groups=groups), project=project, **more
    )


def plan_of(words=("true",), env=None):
    only = ReplicaPlan(
        role=Role.PRIMARY, index=0, task_name="primary-0", argv=tuple(words), env=env or {}
    )
    return LaunchPlan(
        job_id="j", attempt=1, replicas=(only,), environment=Environment(python="/usr/bin/python3")
    )


class World:
    """One installation, one cluster."""

    def __init__(self, folder):
        self.folder, self.slurm, self.engines = folder, FakeSlurm(), []
        self.spool = folder / "spool"
        self.spool.mkdir()

    def engine(self, *, serves=True, **options):
        """As after a restart of the server, or of what only looks."""
        context = EngineContext(
            jobs_dir=self.folder / "data" / "jobs",
            name="slurm",
            installation="here",
            buckets=self.folder / "buckets",
            options={"spool": str(self.spool), "lost_after_s": 0, "poll_s": 0.02, **options},
        )
        environ = {"HOME": "/root", "TOKEN": SECRET, "SLURM_CONF": "/etc/s.conf"}
        engine = factory.make(context, environ=environ, run=self.slurm)
        self.engines.append(engine)
        if serves:
            engine.listen(lambda _: None)
        return engine

    def attempt(self, key=KEY):
        return AttemptFolder(str(self.spool / "here" / "jobs" / str(key.uid) / str(key.attempt)))

    def begin(self, key=KEY, job="1"):
        """What a launcher does when it has the first node."""
        folder = self.attempt(key)
        with Path(folder.path, "claim").open("x", encoding="ascii") as file:
            file.write(f"{job} n1\n")
        self.record(Began(1, 1, "boot"), Ready(("primary-0",)), key=key)

    def record(self, *entries, key=KEY):
        for entry in entries:
            records.append(self.attempt(key).records, entry, durably=False)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr(poll, "FAST_S", 0.02)
    monkeypatch.setattr(poll, "TICK_S", 0.01)
    world = World(tmp_path)
    yield world
    for engine in world.engines:
        with closing(engine):
            pass


def until(engine, *phases, key=KEY):
    return eventually(lambda: [o for o in engine.observe([key]) if o.phase in phases])[0]


def launched(world, **options):
    engine = world.engine(**options)
    engine.launch(KEY, plan_of(), claim())
    until(engine, Phase.WAITING)
    return engine


def begun(world, state="RUNNING"):
    engine = launched(world)
    world.slurm.set("1", state)
    world.begin()
    until(engine, Phase.READY)
    return engine


def exit_of(code=None, signal=None, *, interrupted=False, message="it ended"):
    status = code if code is not None else 128 + signal
    one = ReplicaExit(Role.PRIMARY, 0, "primary-0", code, signal, 1.0, stopped_by_us=interrupted)
    return Ended(Outcome(status, message, (one,), interrupted=interrupted))


def test_one_submission_however_often_it_is_launched(world):
    engine = launched(world)
    engine.launch(KEY, plan_of(), claim())
    world.engine().launch(KEY, plan_of(), claim())
    (words,) = [argv for argv in world.slurm.called("sbatch") if "--version" not in argv]
    assert f"--comment={KEY}" in words
    assert f"--job-name={NAME}" in words
    assert "--dependency=singleton" in words


def interrupt():
    raise KeyboardInterrupt


def killed_while_it_submits(world):
    """A server that does not live to read what sbatch says."""
    world.slurm.before_answer = interrupt
    with pytest.raises(KeyboardInterrupt):
        world.engine().launch(KEY, plan_of(), claim())
    world.slurm.before_answer = lambda: None


def test_a_job_whose_number_was_never_read_is_found_by_its_comment(world):
    killed_while_it_submits(world)
    after = world.engine()
    after.launch(KEY, plan_of(), claim())
    assert list(world.slurm.rows) == ["1"]
    until(after, Phase.WAITING)


def test_a_job_that_began_and_that_slurm_forgot_is_not_submitted_again(world):
    killed_while_it_submits(world)
    world.begin()
    world.slurm.forget("1")
    world.engine().launch(KEY, plan_of(), claim())
    assert world.slurm.rows == {}


def test_the_sbatch_of_a_killed_server_is_waited_for(world, monkeypatch):
    monkeypatch.setattr(submit, "_SUBMIT_S_MAX", 0.05)
    lives_on = []

    def kill():
        lives_on.extend(map(os.dup, world.slurm.inherited))
        raise KeyboardInterrupt

    engine = world.engine()
    world.slurm.before_answer = kill
    with pytest.raises(KeyboardInterrupt):
        engine.launch(KEY, plan_of(), claim())
    world.slurm.before_answer = lambda: None
    with pytest.raises(OSError, match="earlier sbatch"):
        world.engine().launch(KEY, plan_of(), claim())
    for descriptor in lives_on:
        os.close(descriptor)
    world.engine().launch(KEY, plan_of(), claim())
    assert list(world.slurm.rows) == ["1"]


def test_a_submission_under_way_elsewhere_is_waited_for(world, monkeypatch):
    monkeypatch.setattr(submit, "_SUBMIT_S_MAX", 0.05)
    engine = world.engine()

    def second():
        with pytest.raises(OSError, match="earlier sbatch") as caught:
            other.launch(KEY, plan_of(), claim())
        assert is_transient(caught.value)

    other = world.engine()
    world.slurm.before_answer = second
    engine.launch(KEY, plan_of(), claim())
    assert list(world.slurm.rows) == ["1"]


def test_nothing_secret_reaches_slurm(world):
    engine = world.engine()
    engine.launch(KEY, plan_of(env={"API_KEY": "k3y"}), claim())
    eventually(lambda: world.slurm.called("squeue"))
    calls = repr(world.slurm.calls)
    assert SECRET not in calls
    assert "k3y" not in calls
    assert all(env["SLURM_CONF"] == "/etc/s.conf" for _, _, env in world.slurm.calls)


def test_words_of_any_kind_arrive_byte_for_byte(world):
    odd = "a'b\"c$HOME `id`\n\\ ü " + "x" * 100_000
    engine = world.engine()
    engine.launch(KEY, plan_of(("/bin/echo", odd), {"ODD": odd}), claim())
    (replica,) = json.loads(Path(world.attempt().plan).read_text("utf-8"))["replicas"]
    assert replica["argv"][1] == replica["env"]["ODD"] == odd
    assert odd not in repr(world.slurm.calls)


def test_seats_are_no_place_here(world):
    with pytest.raises(EngineFault, match="Slurm places its jobs"):
        world.engine().launch(KEY, plan_of(), [Seat(role=Role.PRIMARY, index=0, node="n1")])


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ("sbatch: error: Invalid account or account/partition combination specified", "sacctmgr"),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", "sacctmgr"),
        ("sbatch: error: Batch job submission failed: Invalid partition name", "sinfo"),
        ("sbatch: error: Requested node configuration is not available", "not available"),
    ],
)
def test_what_slurm_will_never_take(world, refusal, words):
    world.slurm.refusal = refusal
    with pytest.raises(EngineFault, match=words) as caught:
        world.engine().launch(KEY, plan_of(), claim())
    assert refusal in str(caught.value)


@pytest.mark.parametrize(
    "refusal",
    [
        f"sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: {POLICY}",
        "sbatch: error: QOSMaxSubmitJobPerUserLimit",
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
    ],
)
def test_a_full_queue_refuses_for_now_and_takes_it_later(world, refusal):
    engine = world.engine()
    world.slurm.refusal = refusal
    with pytest.raises(LaunchRefused) as caught:
        engine.launch(KEY, plan_of(), claim())
    assert caught.value.why.reason is Reason.ENGINE_FULL
    world.slurm.refusal = ""
    engine.launch(KEY, plan_of(), claim())
    until(engine, Phase.WAITING)


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


def test_it_waits_with_the_words_of_slurm(world):
    engine = launched(world)
    world.slurm.set("1", "PENDING", "JobHeldUser", "")
    observations = eventually(
        lambda: [o for o in engine.observe([KEY]) if o.waits and o.waits.reason is Reason.HELD]
    )
    assert observations[0].phase is Phase.WAITING


def test_where_it_is_placed_is_said(world):
    engine = begun(world)
    seats = eventually(lambda: engine.observe([KEY])[0].placed)
    assert seats == (Seat(role=Role.PRIMARY, index=0, node="n1", engine="slurm"),)


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
        ("NODE_FAIL", Loss.INFRA, "NODE_FAIL of its job 1 on n1"),
        ("CANCELLED", Loss.INFRA, "another user or Slurm has cancelled"),
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
    ("message", "loss"), [("n1 is to be left", Loss.MAINTENANCE), ("", Loss.INFRA)]
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
    engine._poller.miss(frozenset({"1"}))
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


def test_an_order_that_comes_as_a_job_begins_is_no_early_end(world):
    engine = launched(world)
    Path(world.attempt().path, "claim").write_text("1\n")  # its launcher has recorded nothing yet
    engine.stop(KEY, ORDER)
    assert until(engine, Phase.ENDED, Phase.LOST).phase is Phase.LOST


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


def set_forward(monkeypatch):
    """By 400 days."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 400 * 86_400)


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
    with pytest.raises(EngineFault, match=f"{folder.path}/claim for the attempt"):
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


def test_paths_of_the_nodes_are_mapped(world):
    engine = world.engine(spool_there="/shared", buckets="/mnt/buckets")
    sight = engine.sight(KEY, [ReplicaShape(Role.PRIMARY, 0)])
    there = f"/shared/here/jobs/{KEY.uid}/1"
    assert (sight.work, sight.exchange) == (f"{there}/work", f"{there}/progress")
    assert sight.buckets == "/mnt/buckets"
    engine.launch(KEY, plan_of(), claim())
    words = world.slurm.called("sbatch")[-1]
    assert f"--chdir={there}" in words
    assert words[-1].startswith("/shared/here/lib/warden-")
    assert Path(world.attempt().plan).is_file()


def test_the_manifest_is_what_is_sent(world):
    engine = world.engine(account={"vision": "a1"})
    manifest = engine.manifest(KEY, plan_of(), claim())
    assert not Path(world.attempt().path).exists()
    engine.launch(KEY, plan_of(), claim())
    words = world.slurm.called("sbatch")[-1]
    assert manifest["command"].endswith(" ".join(words[-4:]))
    assert "--account=a1" in manifest["command"]
    plan = json.loads(Path(world.attempt().plan).read_text("utf-8"))
    assert json.loads(manifest["plan.json"]) == plan


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
        engine.traits.fence(KEY)
    world.slurm.is_away = True
    until(engine, Phase.UNKNOWN)
    engine.traits.fence(KEY)
    assert until(engine, Phase.LOST).loss is Loss.INFRA


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


def test_gpus_of_a_type_are_asked_for_by_slurms_word_for_them(world):
    def gpus(gpu_type):
        demand = Demand(gpu_type=gpu_type, gpu_count=2)
        groups = (GroupDemand(role=Role.PRIMARY, count=1, each=demand),)
        return Claim(engine="slurm", demand=JobDemand(region=None, groups=groups))

    engine = world.engine()
    eventually(engine.fleet)
    engine.launch(KEY, plan_of(), gpus("NVIDIA_A100_80GB"))
    assert "--gres=gpu:nvidia_a100_80gb_pcie:2" in world.slurm.called("sbatch")[-1]
    engine.launch(AttemptKey(6, 1), plan_of(), gpus("NVIDIA_TESLA_T4"))
    assert "--gres=gpu:t4:2" in world.slurm.called("sbatch")[-1]


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


def answers(engine, count):
    """Wait for so many more answers of Slurm, and look at each."""
    until_number = engine._poller.last_answer.number + count
    return eventually(
        lambda: [
            observation
            for observation in engine.observe([KEY])
            if engine._poller.last_answer.number >= until_number
        ]
    )[0]


def test_the_job_that_has_the_claim_is_the_attempt_s_whatever_was_submitted(world):
    engine = launched(world)
    late = world.slurm.add(NAME, str(KEY), "RUNNING")  # of an sbatch that gave no answer
    world.begin(job=late)
    until(engine, Phase.READY)
    assert answers(engine, 5).phase is Phase.READY
    assert not world.slurm.called("scancel")
    world.slurm.set(late, "NODE_FAIL")
    assert until(engine, Phase.LOST).loss is Loss.INFRA


@pytest.mark.usefixtures("no_spare_time")
def test_an_attempt_whose_number_was_never_read_is_lost_once_slurm_has_forgotten_it(world):
    engine = launched(world)
    engine.close()
    world.begin()
    path = Path(world.attempt().path, "slurm.json")
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "job": "", "since_s": 0}))
    world.slurm.forget("1")
    assert "does not know" in until(world.engine(), Phase.LOST).fault


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


def test_what_slurm_has_refused_is_forgotten(world, monkeypatch):
    engine = world.engine()
    world.slurm.refusal = "sbatch: error: Invalid account"
    with pytest.raises(EngineFault):
        engine.launch(KEY, plan_of(), claim())
    assert not engine.forget(KEY.uid)  # it was asked for just now
    monkeypatch.setattr(slurm_attempt, "SETTLE_S", -1.0)
    assert engine.forget(KEY.uid)
    assert not Path(world.attempt().job).exists()


def test_an_order_for_what_was_never_submitted_is_done_some_day(world, monkeypatch):
    engine = world.engine()
    world.slurm.refusal = "sbatch: error: Invalid account"
    with pytest.raises(EngineFault):
        engine.launch(KEY, plan_of(), claim())
    monkeypatch.setattr(slurm_attempt, "SETTLE_S", -1.0)
    engine.stop(KEY, ORDER)
    until(engine, Phase.ENDED)
    eventually(lambda: not engine._orders.pending)


def test_what_was_sent_is_what_its_manifest_said(world):
    engine = world.engine()
    assert engine.traits.sent(KEY) == {}
    manifest = engine.manifest(KEY, plan_of(), claim())
    engine.launch(KEY, plan_of(), claim())
    assert engine.traits.sent(KEY) == dict(manifest)
    assert "sbatch --parsable" in manifest["command"]
