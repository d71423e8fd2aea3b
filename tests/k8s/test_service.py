"""A server whose only engine is a cluster of pods: the same jobs, the same commands and answers.

Also on the cluster that the environment names; see README.md in this folder.
"""

import json
import os
import re
import stat

import pytest

from e2e import fleet
from e2e.fleet import BUCKET
from e2e.interrupting import upload
from e2e.support import IMAGE, custom_job, good, log_lines, ml_job, native, submit
from k8s.job_programs import FOLDER, list_pods, put_package, read_object
from k8s.serving import SMALL, USER, USER_IMAGE, WHOLE_NODE, serving_cluster, small_job
from slurm.support import come_to
from slurm.test_service import ROLES
from warden.test_attempts import OBEYS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: What the story of a job tells at least.
COURSE = ["ACCEPTED", "HANDED_OVER", "PREPARING", "RUNNING", "SUCCEEDED"]


@pytest.fixture(scope="module")
def server(any_cluster, tmp_path_factory):
    with serving_cluster(any_cluster, tmp_path_factory.mktemp("served") / "data") as server:
        fleet.make_bucket(server)
        yield server


def test_jobs_of_both_dialects_run_on_the_cluster(server):
    vertex_job = custom_job("vertex-1", fleet.REPORTS, workers=2)
    names = [submit(server, job) for job in (ml_job("ml_1"), vertex_job)]
    for name in names:
        job = fleet.ended(server, name)
        assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
        lines = [line for line in log_lines(server, name) if line["message"] == "trained"]
        assert len(lines) == len(job["replicas"])
        kinds = [event["kind"] for event in fleet.story(server, name)]
        assert [kind for kind in kinds if kind in COURSE] == COURSE
        assert kinds.count("PLACED") == 1
    fleet.check_figures(server, names[1], replicas=3)
    sent = native(server, names[1], "/manifest")
    parts = {part["name"]: part["text"] for part in sent["parts"]}
    assert (sent["attempt"], sent["engine"]) == (1, "cluster")
    assert "print('trained'" in parts["plan.json"]


def test_a_gang_of_all_roles_finds_each_other(server, controlled_cluster):
    """Every pod has a network of its own."""
    code = ROLES.replace("FOLDER", repr(FOLDER))
    container = {"imageUri": IMAGE, "containerCommand": ["python", "-c"], "containerArgs": [code]}
    kinds = ("master", "worker", "parameterServer", "evaluator")
    training = {f"{kind}Type": SMALL for kind in kinds}
    training |= {f"{kind}Config": container for kind in kinds}
    counts = {"workerCount": "2", "parameterServerCount": "1", "evaluatorCount": "1"}
    name = submit(server, ml_job("roles", **training, **counts))
    job = fleet.ended(server, name)
    assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
    lines = fleet.output_lines(server, name, "master-replica-0")
    assert [line.removesuffix(" gpus=") for line in lines] == [
        *("master 0", "heard worker 0", "heard worker 1", "heard ps 0"),
    ]
    assert fleet.output_lines(server, name, "evaluator-replica-0") == ["evaluator 0 gpus="]
    controlled_cluster.wait_for(
        lambda: not list_pods(controlled_cluster, job["uid"]), "its pods to go"
    )


def test_a_cancelled_program_gets_a_notice_and_then_ends(server, controlled_cluster):
    name = fleet.begun(server, small_job("listens", OBEYS, workers=1), "runs")
    fleet.wait_for_words(server, name, "runs", task="workerpool1-0")
    fleet.cancel(server, name)
    for task in ("workerpool0-0", "workerpool1-0"):
        word, _, notice = fleet.output_lines(server, name, task)[-1].partition(" ")
        assert (word, json.loads(notice)["reason"]) == ("notice", "cancel")
    uid = native(server, name)["uid"]
    controlled_cluster.wait_for(lambda: not list_pods(controlled_cluster, uid), "its pods to go")


@pytest.mark.usefixtures("controlled_cluster")
def test_a_job_that_waits_says_why_and_is_cancelled(server):
    gang = submit(server, small_job("gang", machine=WHOLE_NODE, workers=6))
    come_to(server, gang, "ENQUEUED")
    fleet.wait_until(lambda: native(server, gang)["waiting"]["reason"] == "CAPACITY")
    message = native(server, gang)["waiting"]["message"]
    assert re.search(r" ha(s|ve) no place: 4 nodes lack cpu, 4 nodes lack memory$", message)
    assert good(server.call("GET", f"/v1/{gang}"))["state"] == "JOB_STATE_QUEUED"
    fleet.cancel(server, gang)


def test_a_job_reads_and_writes_the_buckets_of_its_project_alone(server, tmp_path):
    good(server.call("POST", "/storage/v1/b?project=other-proj", {"name": "others"}))
    code = """\
import os, pathlib
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"])
print(sorted(os.listdir("/gcs")), folder, (folder.parent.parent / "in").read_text())
(folder / "out").write_text("by a pod")
"""
    (tmp_path / "in").write_text("by the API")
    upload(server, tmp_path / "in")
    name = submit(server, fleet.in_bucket(small_job("buckets", code), "outputs"))
    assert fleet.ended(server, name)["state"] == "SUCCEEDED", fleet.story_text(server, name)
    model = f"{FOLDER}/outputs/model"
    assert fleet.output_lines(server, name) == [f"['{BUCKET}'] {model} by the API"]
    assert read_object(server, "outputs/model/out") == b"by a pod"


def test_a_package_is_installed_in_every_pod(server, tmp_path):
    code = f"import sys; print(sys.argv[1:], flush=True)\n{fleet.MEETS}"
    package = put_package(server, tmp_path, code)
    document = small_job("package", workers=1)
    for pool in document["jobSpec"]["workerPoolSpecs"]:
        del pool["containerSpec"]
        pool["pythonPackageSpec"] = {
            "executorImageUri": IMAGE,
            "packageUris": [package],
            "pythonModule": "packaged.task",
            "args": ["--words", "two words"],
        }
    name = submit(server, document)
    assert fleet.ended(server, name)["state"] == "SUCCEEDED", fleet.story_text(server, name)
    for task in ("workerpool0-0", "workerpool1-0"):
        assert fleet.output_lines(server, name, task)[-1] == "['--words', 'two words']"


@pytest.mark.usefixtures("controlled_cluster")
def test_an_image_of_any_user_and_the_server_use_the_same_bucket(server):
    results = server.data_dir / "buckets" / fleet.BUCKET
    (results / "input").mkdir()
    (results / "input" / "data").write_text("by the server")
    code = "cd /gcs/results && mkdir -p output/deep && cat input/data > output/deep/model"
    job = small_job("writes", code)
    container = job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    container |= {"imageUri": USER_IMAGE, "command": ["/bin/sh", "-c"]}
    name = submit(server, fleet.in_bucket(job, "run"))
    assert fleet.ended(server, name)["state"] == "SUCCEEDED", fleet.story_text(server, name)
    model = results / "output" / "deep" / "model"
    assert model.read_text() == "by the server"
    for path in (model, model.parent, model.parent.parent):
        assert (path.stat().st_uid, path.stat().st_gid) == (USER, os.getegid())
        assert path.stat().st_mode & stat.S_IWGRP


def test_a_replica_has_the_name_that_its_log_has(server):
    job = custom_job("no-image")
    image = "registry.test/P/img:1"
    job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"] = image
    name = submit(server, job)
    error = fleet.ended(server, name)["error"]
    assert error.startswith(f"workerpool0-0 cannot start: {image} is no name of an image"), error
