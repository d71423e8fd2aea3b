"""Jobs whose pods are evicted, whose programs fail or hang, and what the next attempt gets."""

import pytest

from e2e import fleet
from e2e.support import native, submit
from e2e.test_hangs import RESTART, STUCK
from e2e.test_maintenance import DEAF, HEARD, LISTENER
from k8s.job_programs import FOLDER, list_pods, put_object
from k8s.serving import serving_cluster, small_job
from slurm.test_hold import DIES

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

GRACE_S = 5.0
HANG_S = 3.0
REPLICAS = ("workerpool0-0", "workerpool1-0")


@pytest.fixture(scope="module")
def server(live_cluster, tmp_path_factory):
    """Programs that fail or hang are tried again; pods have a few seconds to end."""
    folder = tmp_path_factory.mktemp("served") / "data"
    config = f"[restarts]\nuser = 3\n[hangs]\n{RESTART}"
    settings = {"grace_s": GRACE_S, "grace_s_max": GRACE_S, "hang_s": HANG_S}
    with serving_cluster(live_cluster, folder, config=config, **settings) as server:
        fleet.make_bucket(server)
        yield server


def test_a_program_that_fails_is_tried_again(server):
    marks = server.data_dir / "buckets" / fleet.BUCKET / "dies"
    marks.mkdir()
    name = submit(server, small_job("dies", DIES.format(folder=f"{FOLDER}/dies", attempts=3)))
    job = fleet.ended(server, name)
    assert (job["state"], job["attempt"]) == ("SUCCEEDED", 3), fleet.story_text(server, name)
    assert fleet.output_lines(server, name) == ["attempt 1", "attempt 2", "attempt 3"]
    assert job["restarts"] == {"infra": 0, "maintenance": 0, "user": 2}


def test_a_drained_node_gives_a_notice_and_the_job_starts_again_elsewhere(server, live_cluster):
    put_object(server, "hold")
    code = LISTENER.replace("HOLD", f"{FOLDER}/hold")
    name = submit(server, fleet.in_bucket(small_job("told", code, workers=1), "told"))
    for task in REPLICAS:
        fleet.wait_for_words(server, name, "env ", task=task)
    fleet.running(server, name)
    node = native(server, name)["replicas"][0]["node"]
    live_cluster.plane.drain(node)
    for task in REPLICAS:
        for words in HEARD:
            fleet.wait_for_words(server, name, words, task=task)
    fleet.running(server, name, 2)
    (server.data_dir / "buckets" / fleet.BUCKET / "hold").unlink()
    job = fleet.ended(server, name)
    live_cluster.plane.cordon(node, is_cordoned=False)
    assert (job["state"], job["attempt"]) == ("SUCCEEDED", 2), fleet.story_text(server, name)
    assert job["restarts"] == {"maintenance": 1, "infra": 0, "user": 0}
    assert node not in {replica["node"] for replica in job["replicas"]}
    events = fleet.trainshed(server, "jobs", "events", name)
    assert f"the cluster ends workerpool0-0, workerpool1-0 on the node {node}" in events


def test_a_replica_that_hangs_is_named_and_the_job_starts_again(server):
    code = STUCK.format(go="/trainshed/work/pipe", end=f"{FOLDER}/never")
    code = f"import os\nos.mkfifo('/trainshed/work/pipe')\n{code}"
    name = submit(server, small_job("stuck", code, workers=1))
    job = fleet.ended(server, name)
    assert (job["state"], job["attempt"]) == ("SUCCEEDED", 2), fleet.story_text(server, name)
    story = fleet.story_text(server, name)
    assert "Replica workerpool1-0 has shown no progress for 3 s" in story
    assert "waits_for_ever (<string>" in story  # its stack, by py-spy of the image


def test_a_program_that_ignores_a_cancel_is_killed_after_the_grace(server, live_cluster):
    name = fleet.begun(server, small_job("deaf", DEAF))
    fleet.cancel(server, name)
    assert "heard" in fleet.output_lines(server, name)
    (end,) = fleet.story(server, name, "REPLICA_ENDED")
    assert "killed" in end["message"], end
    uid = native(server, name)["uid"]
    live_cluster.wait_for(lambda: not list_pods(live_cluster, uid), "its pods to go")
