"""A server whose only engine is a cluster of pods: the same jobs, the same commands and answers."""

import os
import stat

import pytest

from e2e import fleet
from e2e.support import custom_job, log_lines, ml_job, native, submit
from k8s.serving import USER, USER_IMAGE, serving_cluster, small_job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(live_cluster, tmp_path_factory):
    with serving_cluster(live_cluster, tmp_path_factory.mktemp("served") / "data") as server:
        fleet.make_bucket(server)
        yield server


def test_jobs_of_both_dialects_run_on_the_cluster(server):
    names = [submit(server, job) for job in (ml_job("ml_1"), custom_job("vertex-1", workers=2))]
    for name in names:
        job = fleet.ended(server, name)
        assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
        lines = [line for line in log_lines(server, name) if line["message"] == "trained"]
        assert len(lines) == len(job["replicas"])
    sent = native(server, names[1], "/manifest")
    parts = {part["name"]: part["text"] for part in sent["parts"]}
    assert (sent["attempt"], sent["engine"]) == (1, "cluster")
    assert "print('trained')" in parts["plan.json"]


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
