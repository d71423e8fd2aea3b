"""What the Slurm engine submits, once for each attempt, and what it does when Slurm refuses."""

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from engines import fake_slurm
from engines.slurm_world import (
    KEY,
    NAME,
    SECRET,
    answers,
    claim,
    eventually,
    gpu_claim,
    killed_while_it_submits,
    launched,
    plan_of,
    until,
    world,
)
from trainshed.engines.base import EngineContext, LaunchRefused, ReplicaShape
from trainshed.engines.slurm import attempt as slurm_attempt
from trainshed.engines.slurm import attempt_files, factory, submit
from trainshed.engines.slurm.commands import CommandResult, Commands
from trainshed.model.attempt import AttemptKey, Loss, Phase
from trainshed.model.explanation import Reason
from trainshed.model.faults import EngineFault, UsageFault, is_transient
from trainshed.model.launch_plan import Owner
from trainshed.model.resources import Seat
from trainshed.model.roles import Role

__all__ = ["world"]

POLICY = (
    "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's "
    "size and/or time limits)"
)


def test_one_submission_however_often_it_is_launched(world):
    engine = launched(world)
    engine.launch(KEY, plan_of(), claim())
    world.engine().launch(KEY, plan_of(), claim())
    (words,) = [argv for argv in world.slurm.called("sbatch") if "--version" not in argv]
    assert f"--comment={KEY} vision" in words
    assert f"--job-name={NAME}" in words
    assert "--dependency=singleton" in words


def test_a_submission_outlasts_a_loss_of_power_and_waits_six_times_for_the_disk(world, monkeypatch):
    synced, names, sync = [], set(), os.fsync

    def note(descriptor):
        sync(descriptor)
        status = os.fstat(descriptor)
        synced.append(status.st_ino)
        if stat.S_ISDIR(status.st_mode):
            names.update(path.name for path in Path(f"/proc/self/fd/{descriptor}").iterdir())

    def check():
        for name in ("plan.json", "slurm.json"):
            assert Path(world.attempt().path, name).stat().st_ino in synced
            assert name in names

    engine = world.engine()
    monkeypatch.setattr(os, "fsync", note)
    world.slurm.before_answer = check
    engine.launch(KEY, plan_of(), claim())
    assert len(synced) == 6


def test_the_names_of_the_job_are_beside_its_log(world):
    plan = replace(plan_of(), owner=Owner(project="alpha", number=0), creator="dora")
    world.engine().launch(KEY, plan, claim())
    names = json.loads(Path(world.attempt().path, "job.json").read_text())
    assert (names["project"], names["job"], names["creator"]) == ("alpha", plan.job_id, "dora")
    assert (names["uid"], names["attempt"]) == (str(KEY.uid), KEY.attempt)


def test_a_job_whose_number_was_never_read_is_found_by_its_comment(world):
    killed_while_it_submits(world)
    after = world.engine()
    after.launch(KEY, plan_of(), claim())
    assert list(world.slurm.rows) == ["1"]
    until(after, Phase.WAITING)


def test_no_other_thread_waits_while_a_late_number_is_stored(world, monkeypatch):
    killed_while_it_submits(world)
    world.engines[0].close()
    engine = world.engine(serves=False)
    lock = engine._attempts.lock
    engine._attempts.get(KEY).submitted = attempt_files.read_submission(world.attempt())
    engine._poller._poll()
    are_free, store = [], attempt_files.keep_submitted

    def use_lock():
        if is_free := lock.acquire(blocking=False):
            lock.release()
        return is_free

    def note(*given):
        with ThreadPoolExecutor(1) as other:
            are_free.append(other.submit(use_lock).result())
        store(*given)

    monkeypatch.setattr(attempt_files, "keep_submitted", note)
    engine._orders.work(engine._poller)
    assert are_free == [True]
    assert engine._attempts.get(KEY).job == "1"


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
        ("sbatch: error: Requested time limit is invalid (missing or exceeds it)", "time_max_s"),
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


def test_gpus_of_a_type_are_asked_for_by_slurms_word_for_them(world):
    engine = world.engine()
    engine.launch(KEY, plan_of(), gpu_claim("NVIDIA_A100_80GB"))
    assert "--gpus-per-task=nvidia_a100_80gb_pcie:2" in world.slurm.called("sbatch")[-1]
    engine.launch(AttemptKey(6, 1), plan_of(), gpu_claim("NVIDIA_TESLA_T4"))
    assert "--gpus-per-task=t4:2" in world.slurm.called("sbatch")[-1]


def test_the_job_that_has_the_claim_is_the_attempt_s_whatever_was_submitted(world):
    engine = launched(world)
    late = world.slurm.add(NAME, str(KEY), "RUNNING")  # of an sbatch that gave no answer
    world.begin(job=late)
    until(engine, Phase.READY)
    assert answers(engine, 5).phase is Phase.READY
    assert not world.slurm.called("scancel")
    world.slurm.set(late, "NODE_FAIL")
    assert until(engine, Phase.LOST).loss is Loss.INFRA


def test_what_slurm_has_refused_is_forgotten(world, monkeypatch):
    engine = world.engine()
    world.slurm.refusal = "sbatch: error: Invalid account"
    with pytest.raises(EngineFault):
        engine.launch(KEY, plan_of(), claim())
    assert not engine.forget(KEY.uid)  # it was asked for just now
    monkeypatch.setattr(slurm_attempt, "SETTLE_S", -1.0)
    assert engine.forget(KEY.uid)
    assert not Path(world.attempt().job).exists()


def test_what_was_sent_is_what_its_manifest_said(world):
    engine = world.engine()
    assert engine.read_sent(KEY) == {}
    manifest = engine.manifest(KEY, plan_of(), claim())
    engine.launch(KEY, plan_of(), claim())
    assert engine.read_sent(KEY) == dict(manifest)
    assert "sbatch --parsable" in manifest["command"]


def test_slurms_commands_get_the_variables_that_the_configuration_names(world):
    engine = launched(world, env=["TOKEN"])
    calls = {name: env for name, _, env in world.slurm.calls}
    assert calls["sbatch"]["TOKEN"] == calls["squeue"]["TOKEN"] == SECRET
    assert world.slurm.called("sbatch")[-1][-1] == "TOKEN"  # which the script unsets
    assert SECRET not in str(engine.read_sent(KEY))
    with pytest.raises(UsageFault, match="which the server's environment lacks"):
        world.engine(env=["SLURM_JWT"])


def test_slurms_commands_get_the_newest_token_of_a_file(world):
    """``scontrol token`` renews it while the server runs, because tokens expire."""
    path = world.folder / "token"
    path.write_text("SLURM_JWT=first\n")
    engine = launched(world, token_file=str(path))
    assert world.slurm.called("sbatch")[-1][-1] == "SLURM_JWT"  # which the script unsets
    path.write_text("second\n")
    eventually(lambda: world.slurm.calls[-1][2]["SLURM_JWT"] == "second")
    assert world.slurm.calls[0][2]["SLURM_JWT"] == "first"
    assert "first" not in str(engine.read_sent(KEY))
    path.unlink()
    assert "check `token_file` in [[engine]]" in eventually(engine.health).message


def test_every_command_names_the_cluster_of_several(world):
    launched(world, clusters="gamma")
    assert {words[0] for _, words, _ in world.slurm.calls} == {"--clusters=gamma"}


def test_commands_of_a_folder_on_the_path_of_the_server_run(tmp_path):
    folder = tmp_path / "opt"
    folder.mkdir()
    (folder / "sbatch").write_text("#!/bin/sh\nexec of-this-folder\n")
    (folder / "of-this-folder").write_text('#!/bin/sh\necho "slurm 23.11.4"\n')
    for name in ("sbatch", "of-this-folder"):
        (folder / name).chmod(0o755)
    spool = {"spool": str(tmp_path)}
    context = EngineContext(jobs_dir=tmp_path / "data" / "jobs", installation="here",
                            buckets=tmp_path, options=spool)  # fmt: skip
    engine = factory.make(context, environ={"PATH": str(folder)})
    try:
        # Slurm hands the path of sbatch to the launcher, which runs srun
        assert engine._queue.version() == (23, 11)
    finally:
        engine.close()


def test_the_heading_of_a_cluster_is_no_row():
    def run(argv, *_rest):
        assert argv[:2] == ["squeue", "--clusters=gamma"]
        return CommandResult(0, out="CLUSTER: gamma\n7 RUNNING\n")

    commands = Commands(cluster="gamma", environ={}, run=run)
    assert commands.ask("squeue", "-h") == "7 RUNNING\n"


def test_a_cluster_whose_slurm_knows_no_gpus_by_task_is_asked_for_gpus_by_node(world):
    world.slurm.config = "SelectType              = select/cons_res\n"
    engine = world.engine()
    engine.launch(KEY, plan_of(), gpu_claim("NVIDIA_TESLA_T4"))
    words = world.slurm.called("sbatch")[-1]
    assert "--gres=gpu:t4:2" in words
    assert not [word for word in words if word.startswith("--gpus-per-task")]


@pytest.mark.parametrize(
    ("partitions", "config", "steps"),
    [
        ("GraceTime=0", "PreemptType = preempt/partition_prio", 0),
        ("GraceTime=60", "PreemptType = preempt/partition_prio", 1),
        ("GraceTime=0", "PreemptType             = preempt/qos", 1),
    ],
)
def test_a_single_replica_has_a_step_where_slurm_gives_notice_of_a_preemption(
    world, monkeypatch, partitions, config, steps
):
    """Slurm sends that notice to steps, and not to the batch step."""
    monkeypatch.setattr(
        fake_slurm, "PARTITIONS", fake_slurm.PARTITIONS.replace("GraceTime=0", partitions)
    )
    world.slurm.config = f"{config}\n"
    engine = world.engine()
    engine.launch(KEY, plan_of(), claim())
    plan = json.loads(Path(world.attempt().plan).read_text("utf-8"))
    assert len(plan["remote"]["steps"]) == steps


def test_launchers_survive_a_program_without_memory_where_slurm_would_kill_them_too(world):
    world.slurm.config = "TaskPluginParam         = OOMKillStep\n"
    launched(world)
    assert "--oom-kill-step=0" in world.slurm.called("sbatch")[-1]


def test_a_job_that_starts_with_the_server_asks_for_what_its_partition_permits(world, monkeypatch):
    """A restarted server launches at once; what it asks for depends on the first answer."""
    partitions = fake_slurm.PARTITIONS.replace("MaxTime=UNLIMITED", "MaxTime=1-00:00:00")
    monkeypatch.setattr(fake_slurm, "PARTITIONS", partitions)
    submitted = threading.Event()
    world.slurm.before_nodes = lambda: submitted.wait(0.5)
    world.slurm.before_answer = submitted.set
    world.engine().launch(KEY, plan_of(), claim(running_s_max=7 * 86_400.0))
    assert "--time=1440" in world.slurm.called("sbatch")[-1]


def test_a_slurm_that_lists_no_nodes_in_time_is_away(world, monkeypatch):
    monkeypatch.setattr(submit, "_SUBMIT_S_MAX", 0.05)
    may_answer = threading.Event()
    world.slurm.before_nodes = lambda: may_answer.wait(60)
    with pytest.raises(OSError, match="has not listed its nodes") as caught:
        world.engine().launch(KEY, plan_of(), claim())
    assert is_transient(caught.value)
    may_answer.set()


def test_a_job_that_was_refused_runs_by_what_its_last_submission_asked_for(world):
    world.slurm.refusal = "sbatch: error: QOSMaxSubmitJobPerUserLimit"
    with pytest.raises(LaunchRefused):
        world.engine().launch(KEY, plan_of(), claim(running_s_max=86_400.0))
    world.slurm.refusal = ""
    engine = world.engine(time_max_s=3600)
    engine.launch(KEY, plan_of(), claim(running_s_max=86_400.0))
    assert "--time=60" in world.slurm.called("sbatch")[-1]
    plan = json.loads(Path(world.attempt().plan).read_text("utf-8"))
    assert plan["remote"]["ends_s"] < 3600
