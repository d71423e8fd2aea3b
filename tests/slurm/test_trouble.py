"""What happens to a cluster and its server, and what must not: lost, doubled or needless starts."""

import os
import signal
import time

import pytest

from e2e import fleet
from e2e.chaos import check_count, counting
from e2e.interrupting import small_job
from e2e.support import good, native, submit, wait_until
from slurm.cluster import Settings, running_cluster
from slurm.support import WHOLE_NODE, a_job, allocations, come_to, on_cluster, waits_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS, STEP_S = 400, 0.05


@pytest.fixture
def server(cluster, tmp_path):
    with on_cluster(cluster, tmp_path / "data") as server:
        fleet.make_bucket(server)
        yield server


def node_of(server, name):
    """Return where the primary of a job runs, once the server has noted it."""
    return wait_until(lambda: native(server, name)["replicas"][0]["node"])


def test_a_job_outlives_its_server(server, cluster):
    """Whether it was only handed over or runs already; each has one allocation."""
    go = cluster.shared / "go-outlive"
    running = fleet.begun(server, a_job("runs", counting(go)), "1")
    handed = submit(server, a_job("just-submitted", "print('trained')"))
    server.kill()
    go.touch()
    server.start()
    for name in (running, handed):
        job = fleet.ended(server, name)
        assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1), fleet.story_text(server, name)
    check_count(fleet.output_lines(server, running))
    uids = {native(server, name)["uid"] for name in (running, handed)}
    ours = [name for name in allocations(cluster, uids) if name.rpartition("-")[2] in uids]
    assert len(ours) == len(uids), ours


@pytest.mark.full
def test_a_controller_that_is_away_or_has_forgotten_costs_no_job(server, cluster):
    go = cluster.shared / "go-away"
    name = fleet.begun(server, a_job("runs", counting(go, pause_s=0.05)), "1")
    cluster.stop_controller()
    late = submit(server, a_job("late"))
    for queued in (late, name):  # one knows of it when squeue gives up
        wait_until(lambda queued=queued: _reason(server, queued) == "ENGINE_AWAY")
    assert native(server, late)["state"] in {"QUEUED", "ENQUEUED"}
    assert native(server, name)["state"] == "RUNNING"
    cluster.start_controller()
    assert fleet.ended(server, late)["state"] == "SUCCEEDED"
    go.touch()
    job = fleet.ended(server, name)
    assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1)
    check_count(fleet.output_lines(server, name))


@pytest.mark.full
def test_a_minute_without_a_controller_costs_neither_what_runs_nor_what_waits(server, cluster):
    go = cluster.shared / "go-minute"
    names = [
        fleet.begun(server, a_job(f"whole-{n}", counting(go), machine=WHOLE_NODE), "1")
        for n in range(6)
    ]
    names += [submit(server, a_job(f"waits-{n}")) for n in range(6)]
    for name in names[6:]:
        wait_until(lambda name=name: _reason(server, name) in {"CAPACITY", "ENGINE_QUEUE"})
    cluster.stop_controller()
    wait_until(lambda: _reason(server, names[0]) == "ENGINE_AWAY")
    time.sleep(60)  # longer than any time that Slurm's commands or the server give it
    go.touch()
    cluster.start_controller()
    for name in names:
        job = fleet.ended(server, name)
        assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1), fleet.story_text(server, name)
    for name in names[:6]:
        check_count(fleet.output_lines(server, name))
    uids = {native(server, name)["uid"] for name in names}
    ours = [name for name in allocations(cluster, uids) if name.rpartition("-")[2] in uids]
    assert len(ours) == len(names), ours


@pytest.mark.full
def test_what_slurm_forgets_at_once_ends_as_it_did(tmp_path):
    with (
        running_cluster(Settings(nodes=2, min_job_age_s=2)) as cluster,
        on_cluster(cluster, tmp_path / "data") as server,
    ):
        go = cluster.shared / "go-forgotten"
        well = fleet.begun(server, a_job("well", counting(go)), "1")
        badly = fleet.begun(server, a_job("badly", counting(go, status=3)), "1")
        server.kill()
        go.touch()
        cluster.wait_for(lambda: not cluster.run("squeue", "-h", "--states=all").strip())
        server.start()
        for name, state in ((well, "SUCCEEDED"), (badly, "FAILED")):
            job = fleet.ended(server, name)
            assert (job["state"], job["attempt"]) == (state, 1), fleet.story_text(server, name)
            check_count(fleet.output_lines(server, name))


@pytest.mark.full
def test_a_node_without_our_python_says_so(cluster, tmp_path):
    absent = "/opt/absent/python3"
    with on_cluster(cluster, tmp_path / "absent", python=absent) as server:
        name = submit(server, a_job("no-python"))
        wait_until(
            lambda: absent in fleet.story_text(server, name),
            lambda: fleet.story_text(server, name),
        )
        fleet.cancel(server, name)


def _reason(server, name):
    return (fleet.reason(native(server, name)) or {}).get("reason")


@pytest.mark.full
def test_what_a_controller_with_an_empty_state_has_ended_is_started_again_once(server, cluster):
    """It ends the jobs that it does not know any more."""
    training = small_job(server, "forgotten", STEPS, STEP_S)
    training_runs(server, training)
    cluster.stop_controller()
    cluster.forget_state()
    cluster.start_controller()
    fleet.running(server, training.name, 2)
    assert training.weights()
    assert native(server, training.name)["restarts"]["infra"] == 1


@pytest.mark.full
def test_a_job_whose_node_dies_goes_on_elsewhere_and_ends_alike(server, cluster):
    straight = small_job(server, "straight", STEPS, 0).weights()
    training = small_job(server, "node-dies", STEPS, STEP_S)
    training_runs(server, training)
    dead = node_of(server, training.name)
    cluster.kill_node(dead)
    fleet.running(server, training.name, 2)
    assert node_of(server, training.name) != dead
    assert training.weights() == straight
    assert native(server, training.name)["restarts"] == {"infra": 1, "maintenance": 0, "user": 0}


def training_runs(server, training):
    fleet.running(server, training.name)
    wait_until(lambda: any(training.checkpoints.glob("checkpoint-*")))


@pytest.mark.full
def test_a_daemon_that_crashes_does_not_make_a_second_attempt_beside_the_first(server, cluster):
    go = cluster.shared / "go-crash"
    name = fleet.begun(server, a_job("crash", counting(go, pause_s=0.05)), "1")
    node = node_of(server, name)
    cluster.crash_daemon(node)
    cluster.start_node(node)
    go.touch()
    job = fleet.ended(server, name)
    assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1), fleet.story_text(server, name)


#: Saves as fast as it can until a file is there, and says what has kept it from that.
SAVES = """\
import os, pathlib, time
from trainshed_trainer import checkpoint_saver
from trainshed_trainer.fence import NewerAttemptError
folder = pathlib.Path({folder!r})
attempt = os.environ["TRAINSHED_JOB"].rpartition("/")[2]
saver = checkpoint_saver(folder / "saves", suffix=f"-of-{{attempt}}")
step = 0
try:
    while not folder.joinpath("go").exists():
        step += 1
        saver.save(step, lambda file: file.write(b"weights"))
        time.sleep(0.02)
except NewerAttemptError as error:
    folder.joinpath(f"refused-{{attempt}}").write_text(str(error))
"""


@pytest.mark.full
def test_a_program_on_an_unreachable_node_saves_nothing_beside_the_next_attempt(server, cluster):
    folder = cluster.shared / "saving"
    folder.joinpath("saves").mkdir(parents=True)
    code = SAVES.format(folder=str(folder))
    name = submit(server, a_job("saves", code))
    wait_until(lambda: any(folder.glob("saves/checkpoint-*-of-1")), timeout_s=60)
    with cluster.frozen(node_of(server, name)) as pids:
        fleet.running(server, name, 2)
        wait_until(lambda: any(folder.glob("saves/checkpoint-*-of-2")), timeout_s=60)
        before = set(folder.glob("saves/checkpoint-*-of-1"))
        (older,) = set(pids) & set(cluster.programs(code.encode()))
        os.kill(older, signal.SIGCONT)  # it is reachable for nothing but its own disk
        wait_until(folder.joinpath("refused-1").exists, timeout_s=60)
        assert set(folder.glob("saves/checkpoint-*-of-1")) <= before
    assert "attempt 2 of this job writes into" in folder.joinpath("refused-1").read_text()
    folder.joinpath("go").touch()
    job = fleet.ended(server, name)
    assert (job["state"], job["attempt"]) == ("SUCCEEDED", 2), fleet.story_text(server, name)


@pytest.mark.full
def test_preemption_with_grace_is_a_notice_and_costs_the_budget_of_maintenance(tmp_path):
    with (
        running_cluster(Settings(nodes=2, grace_s=30)) as cluster,
        on_cluster(cluster, tmp_path / "data") as server,
    ):
        fleet.make_bucket(server)
        straight = small_job(server, "straight", STEPS, 0).weights()
        training = small_job(server, "preempted", STEPS, STEP_S)
        training_runs(server, training)
        with cluster.everything_taken():
            fleet.wait_for_words(server, training.name, "told to stop")
            wait_until(lambda: native(server, training.name)["attempt"] == 2)
        assert training.weights() == straight
        lines = fleet.output_lines(server, training.name)
        (stopped,) = [line for line in lines if line.startswith("told to stop at ")]
        assert stopped.replace("told to stop at", "resumed from") in lines
        paid = native(server, training.name)["restarts"]
        assert paid == {"infra": 0, "maintenance": 1, "user": 0}


@pytest.mark.full
def test_what_somebody_else_cancels_is_held_until_a_user_resumes_it(server, cluster):
    name = fleet.begun(server, a_job("theirs", waits_for(cluster.shared / "never")))
    (number,) = cluster.jobs("%A")
    cluster.run("scancel", number)
    wait_until(lambda: _reason(server, name) == "HELD", lambda: fleet.story_text(server, name))
    job = native(server, name)
    assert (job["state"], job["attempt"], job.get("restarts")) == ("QUEUED", 1, None)
    job_id = name.rpartition("/")[2]
    assert f"cancelled the Slurm job {number} (scancel) at 20" in job["waiting"]["message"]
    assert f"`trainshed jobs resume {job_id}`" in job["waiting"]["message"]
    assert not cluster.jobs()
    path = f"/trainshed/v1/projects/{name.split('/')[1]}/jobs/{job_id}:resume"
    good(server.call("POST", path))
    fleet.running(server, name, 2)
    assert native(server, name).get("restarts") is None
    fleet.cancel(server, name)


@pytest.mark.full
def test_what_somebody_else_cancels_starts_again_where_the_setting_says_so(cluster, tmp_path):
    with on_cluster(cluster, tmp_path / "restarts", hold_cancelled=False) as server:
        name = fleet.begun(server, a_job("theirs", waits_for(cluster.shared / "never")))
        cluster.run("scancel", *cluster.jobs("%A"))
        fleet.running(server, name, 2)
        assert native(server, name)["restarts"]["infra"] == 1
        fleet.cancel(server, name)


@pytest.mark.full
def test_what_is_held_there_says_so(server, cluster):
    go = cluster.shared / "go-held"
    holders = [
        fleet.begun(server, a_job(f"holds-{n}", waits_for(go), machine=WHOLE_NODE))
        for n in range(6)
    ]
    name = submit(server, a_job("held", machine=WHOLE_NODE))
    come_to(server, name, "ENQUEUED")
    number = wait_until(lambda: cluster.jobs_in("PENDING"))[0]
    cluster.run("scontrol", "hold", number)
    wait_until(lambda: (fleet.reason(native(server, name)) or {}).get("reason") == "HELD")
    cluster.run("scontrol", "release", number)
    go.touch()
    for job in (*holders, name):
        assert fleet.ended(server, job)["state"] == "SUCCEEDED"


@pytest.mark.full
def test_a_time_limit_ends_a_job_also_while_no_server_lives(server, cluster):
    document = a_job("limited", waits_for(cluster.shared / "never"), timeout="20s")
    name = fleet.begun(server, document)
    server.kill()
    cluster.wait_for(lambda: not cluster.jobs(), 420)
    server.start()
    assert fleet.ended(server, name)["state"] in {"FAILED", "CANCELLED"}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (a_job("too-many-nodes", machine=WHOLE_NODE, workers=6), "6"),
        (a_job("too-large", machine="n1-standard-96"), "16"),
    ],
)
def test_what_no_set_of_nodes_can_ever_hold_is_refused_at_submit(shared_server, document, words):
    path = "/v1/projects/demo-proj/locations/us-central1/customJobs"
    status, answer = shared_server.call("POST", path, document)
    assert status == 400, answer
    assert words in answer["error"]["message"]


@pytest.fixture(scope="module")
def shared_server(session_cluster, tmp_path_factory):
    with on_cluster(session_cluster, tmp_path_factory.mktemp("refuses") / "data") as server:
        yield server


@pytest.mark.full
def test_two_servers_with_data_of_their_own_share_a_cluster(server, cluster, tmp_path):
    with on_cluster(cluster, tmp_path / "other") as other:
        names = [(service, submit(service, a_job("same-name"))) for service in (server, other)]
        for service, name in names:
            assert fleet.ended(service, name)["state"] == "SUCCEEDED"
        for service, name in names:
            assert fleet.output_lines(service, name) == ["trained"]


@pytest.mark.full
def test_a_hundred_cancelled_trees_leave_nothing(server, cluster):
    tree = (
        "import subprocess, time\n"
        "subprocess.Popen(['setsid', 'sh', '-c', \"trap '' TERM; setsid sleep 987 & wait\"])\n"
        "print('began', flush=True)\ntime.sleep(600)\n"
    )
    for _ in range(10):
        names = [submit(server, a_job(f"tree-{n}", tree)) for n in range(10)]
        for name in names:
            fleet.wait_for_words(server, name, "began")
            good(server.call("POST", f"/v1/{name}:cancel", {}))
        for name in names:
            assert fleet.ended(server, name)["state"] == "CANCELLED"
    cluster.wait_for(lambda: not cluster.jobs())
    assert not cluster.programs(b"987")
