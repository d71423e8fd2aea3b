"""How long jobs may wait, run and be kept: each dialect's own words and meaning."""

import sqlite3
import time
from contextlib import closing
from datetime import datetime

import pytest
import yaml

from conformance.gcloud import needs_gcloud
from e2e import fleet
from e2e.altered_server import altered
from e2e.chaos import check_doctor
from e2e.support import IMAGE, custom_job, good, ml_job, native, serving, submit, wait_until

pytestmark = pytest.mark.slow

CONFIG = "[fleet]\nslots = 2\n"
#: Nobody waits for it: a job's times are moved back instead, once it is where it should be.
HOUR_S = 3600
#: What is left of a limit then.  Jobs are looked at for their limits once a second.
SHORT_S = 2
#: Waited for, and more than the job that has it needs.
PATIENCE_S = 10
NOT_FOUND = 404
#: Five seconds.
EXPIRES = "[jobs]\nfinished_days_max = 0.00006\n"

#: Says of what it hears, and ends; the second attempt never hears of anything but time.
LISTENS = """\
import sys, time
from trainshed_trainer import notice
notice()
print("began", flush=True)
while not notice():
    time.sleep(0.02)
print("told", notice().reason, flush=True)
sys.exit(143)
"""
WRITES = """\
import os
from trainshed_trainer import local_path
(local_path(os.environ["AIP_MODEL_DIR"]) / "model").write_text("weights")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("limits") / "data", config=CONFIG) as server:
        yield server
        check_doctor(server)


def limited(name, code=LISTENS, **scheduling):
    """A job of Vertex with limits, in seconds."""
    document = custom_job(name, code)
    limits = {field: f"{seconds}s" for field, seconds in scheduling.items()}
    document["jobSpec"]["scheduling"] = limits
    return document


def cancelled(server, name):
    """A job whose time was over: its error as Vertex tells it."""
    end = fleet.ended(server, name)
    assert end["state"] == "CANCELLED", fleet.story_text(server, name)
    (event,) = fleet.story(server, name, "TIMEOUT")
    return good(server.call("GET", f"/v1/{name}")), event


def pass_time(server, name, seconds_s):
    """Let a job be so much further in its wait, or in its run."""
    pass_time_of(server, native(server, name)["uid"], seconds_s)


def pass_time_of(server, uid, seconds_s):
    """The same, whether the server runs or not."""
    query = (
        "UPDATE jobs SET deadline_ns = deadline_ns - :ns, running_since_ns = running_since_ns - :ns"
        " WHERE uid = :uid"
    )
    values = {"ns": seconds_s * 1_000_000_000, "uid": int(uid)}
    path = server.data_dir / "trainshed.db"
    with closing(sqlite3.connect(path, timeout=60)) as database, database:
        assert database.execute(query, values).rowcount == 1


@pytest.mark.full
def test_a_job_of_vertex_runs_no_longer_than_its_timeout(server):
    name = fleet.begun(server, limited("vertex", timeout=HOUR_S))
    pass_time(server, name, HOUR_S - SHORT_S)
    job, event = cancelled(server, name)
    assert job["state"] == "JOB_STATE_CANCELLED"
    assert job["error"]["code"] == 4
    assert f"{HOUR_S} s of scheduling.timeout" in job["error"]["message"]
    assert event["message"] == job["error"]["message"]
    assert fleet.output_lines(server, name)[-1] == "told timeout"


@needs_gcloud
def test_a_job_of_ai_platform_runs_no_longer_than_its_max_running_time(
    server, warm, gcloud_at, tmp_path
):
    container = {
        "imageUri": IMAGE,
        "containerCommand": ["python", "-c"],
        "containerArgs": [LISTENS],
    }
    training = {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": container,
        "scheduling": {"maxRunningTime": f"{HOUR_S}s"},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"trainingInput": training}))
    gcloud = fleet.Gcloud(warm, gcloud_at(server.url, server.token), tmp_path)
    submit_words = ("ai-platform", "jobs", "submit", "training", "limited", "--config=config.yaml")
    gcloud(*submit_words).ok()
    name = "projects/demo-proj/jobs/limited"
    fleet.wait_for_words(server, name, "began", task="master-replica-0")
    fleet.running(server, name)
    pass_time(server, name, HOUR_S - SHORT_S)
    job, _ = cancelled(server, name)
    assert job["state"] == "CANCELLED"
    reason = f"{HOUR_S} s of trainingInput.scheduling.maxRunningTime"
    assert reason in job["errorMessage"]
    description = yaml.safe_load(gcloud("ai-platform", "jobs", "describe", "limited").ok().stdout)
    assert (description["state"], description["errorMessage"]) == ("CANCELLED", job["errorMessage"])
    printed = fleet.output_lines(server, name, "master-replica-0")
    assert printed[-1] == "told timeout"


@pytest.mark.full
def test_time_in_the_queue_is_no_running_time(server):
    holders = [fleet.begun(server, custom_job(f"holder-{i}", LISTENS)) for i in (1, 2)]
    name = submit(server, limited("patient", "print('trained')", timeout=PATIENCE_S))
    time.sleep(PATIENCE_S)
    for holder in holders:
        fleet.cancel(server, holder)
    end = fleet.ended(server, name)
    assert end["state"] == "SUCCEEDED", fleet.story_text(server, name)
    assert seconds(end["createTime"], end["startTime"]) > PATIENCE_S


def test_the_running_time_of_all_attempts_counts_and_the_wait_between_them_does_not(server):
    name = fleet.begun(server, limited("twice", timeout=HOUR_S))
    pass_time(server, name, HOUR_S // 2)
    try:
        fleet.maintained(server, name)
        anew = submit(server, limited("anew", timeout=HOUR_S))
        time.sleep(SHORT_S)
    finally:
        fleet.resume(server)
    both = (name, anew)
    wait_until(lambda: fleet.output_lines(server, name).count("began") == 2)
    fleet.wait_for_words(server, anew, "began")
    fleet.running(server, name, 2)
    fleet.running(server, anew)
    left_s = 3 * SHORT_S
    for job_name in both:
        pass_time(server, job_name, HOUR_S // 2 - left_s)
    job, timeout = cancelled(server, name)
    assert native(server, anew)["state"] == "RUNNING", "it began with the second attempt"
    assert f"{HOUR_S} s of scheduling.timeout" in job["error"]["message"]
    assert native(server, name)["attempt"] == 2
    first, second = (event["time"] for event in fleet.story(server, name, "RUNNING"))
    (ended,) = fleet.ends_of(server, name, 1).values()
    ran_s = seconds(first, ended["time"]) + seconds(second, timeout["time"])
    assert ran_s >= left_s - 0.1, "beside what was passed over"
    assert fleet.output_lines(server, name) == [
        "began",
        "told maintenance",
        "began",
        "told timeout",
    ]
    fleet.cancel(server, anew)


def test_a_job_waits_no_longer_than_it_says_unless_it_has_run(server):
    ran = fleet.begun(server, limited("ran", maxWaitDuration=HOUR_S))
    try:
        fleet.maintained(server, ran)
        waits = submit(server, limited("waits", maxWaitDuration=HOUR_S))
        for job_name in (ran, waits):
            pass_time(server, job_name, HOUR_S - SHORT_S)
        job, _ = cancelled(server, waits)
        assert job["error"]["code"] == 4
        assert f"{HOUR_S} s of scheduling.maxWaitDuration" in job["error"]["message"]
        assert "startTime" not in job
        assert native(server, ran)["state"] == "QUEUED", "it has waited as long, and longer"
    finally:
        fleet.resume(server)
    fleet.running(server, ran, 2)
    fleet.cancel(server, ran)


def test_max_wait_time_of_ai_platform_which_is_half_an_hour_at_least(server):
    fleet.maintain(server, 0)
    try:
        document = ml_job("waits_long", scheduling={"maxWaitTime": "1800s"})
        name = submit(server, document)
        uid = native(server, name)["uid"]
        server.stop()
        pass_time_of(server, uid, HOUR_S // 2)
        server.start()
        job, _ = cancelled(server, name)
    finally:
        fleet.resume(server)
    assert "1800 s of trainingInput.scheduling.maxWaitTime" in job["errorMessage"]


def seconds(begin, end):
    """The time between two stamps."""
    return stamp(end) - stamp(begin)


def stamp(text):
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def test_jobs_that_ended_long_ago_are_forgotten_and_their_results_are_not(tmp_path):
    folder = tmp_path / "data"
    with serving(folder, config=EXPIRES, program=altered("tidies-often")) as server:
        fleet.make_bucket(server)
        runs = submit(server, custom_job("running", LISTENS))
        fleet.running(server, runs)
        document = custom_job("old", WRITES)
        output = {"outputUriPrefix": "gs://results/old"}
        document["jobSpec"]["baseOutputDirectory"] = output
        old = submit(server, document)
        wait_until(lambda: server.call("GET", f"/v1/{old}")[0] == NOT_FOUND)
        assert (folder / "buckets" / "results" / "old" / "model" / "model").read_text() == "weights"
        job = native(server, runs)
        assert job["state"] == "RUNNING"
        wait_until(lambda: [path.name for path in (folder / "jobs").iterdir()] == [job["uid"]])
        check_doctor(server)
        fleet.cancel(server, runs)
