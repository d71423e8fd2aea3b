"""The figures of a job agree: in the API, on the command line, on pages of metrics, in its events.

A real server with a simulated engine: one job has ended, another one runs.
"""

import re
import time
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.support import WAIT_S_MAX, client
from controller.world import T4, compose, go, nodes
from databases import new_database
from trainshed.app.application import build
from trainshed.config import Settings
from trainshed.config.settings import MetricsSettings
from trainshed.model.attempt import AttemptKey
from trainshed.model.event_kinds import GOODPUT
from trainshed.model.step_times import StepTimes
from trainshed.model.usage import GpuUsage, ReplicaUsage, Spread, UsageLine
from trainshed.service.auth import tokens
from trainshed.service.telemetry import families
from trainshed.service.telemetry.job_families import JOB_FAMILIES
from trainshed.testing.fake_engine import FakeEngine, Script

ENDED, RUNNING = "ended-proj", "running-proj"
NATIVE = "/trainshed/v1"
TASK = "workerpool0-0"
POOL = {
    "machineSpec": {
        "machineType": "n1-standard-8",
        "acceleratorType": T4,
        "acceleratorCount": 2,
    },
    "replicaCount": "1",
    "containerSpec": {
        "imageUri": "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-13.py310:latest",
        "command": ["true"],
    },
}


def script(_key, _plan):
    """The steps of an attempt from now on; all attempts end by an order of the test."""
    now_s = time.time()
    steps = StepTimes(
        steps=9, first_at=now_s, last_at=now_s + 60, first_step=3, last_step=12, numbered=9
    )
    return Script(runs_s=None, steps=steps)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose threads do not run: the tests perform their work."""
    folder = tmp_path_factory.mktemp("figures")
    new_database(folder)
    engine = FakeEngine(nodes(gpus=8), script=script, monotonic=time.monotonic)
    settings = Settings(data_dir=folder, metrics=MetricsSettings(jobs=True))
    built = build(settings, engine=engine, compose=compose)
    built.controller.lease_once()
    built.controller.fleet_once()
    made = tokens.create(built.store, {"name": "ada", "role": "admin", "project": "*"})
    token_file = folder / "token"
    token_file.write_text(made.token)
    token_file.chmod(0o600)
    with client(built.http, token=made.token) as edge:
        yield SimpleNamespace(app=built, engine=engine, edge=edge, token_file=token_file)
    built.stop()


def submit(server, project):
    """Submit a job; return its number when it runs."""
    document = {"displayName": "census", "jobSpec": {"workerPoolSpecs": [POOL]}}
    path = f"/v1/projects/{project}/locations/us-central1/customJobs"
    answer = server.edge.post(path, json=document)
    assert answer.status_code == 200, answer.text
    go(server.app.controller, 3)
    return answer.json()["name"].rpartition("/")[2]


def get(server, path):
    answer = server.edge.get(f"{NATIVE}/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def flags_of(server, project):
    """The flags with which a command reads a project of the server."""
    place = ("--url", str(server.edge.base_url), "--project", project)
    return *place, "--token-file", server.token_file


def account(server, job):
    """Write what jobs used, until one that ended has the event of its goodput; return it."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not (events := server.app.store.events_of_kind(int(job), GOODPUT, limit=2)):
        assert time.monotonic() < deadline_s
        server.app.controller.lease_once()
        server.app.learning._chores["use of machines"]()
    (event,) = events
    return event


def measure(server, job):
    """Let the newest sample of a job have a step and the energy of a GPU."""
    now_s = time.time()
    replica = ReplicaUsage(step=(7, 8), total=20)
    gpus = {"GPU-1": GpuUsage(use=Spread(0, 0.5, 1), energy_j=900.0)}
    lines = [UsageLine(now_s - 1, 10, {TASK: replica}, gpus), UsageLine(now_s, 1, {TASK: replica})]
    server.engine.usage[AttemptKey(int(job), 1)] += lines


def samples(server, path):
    """The samples of a page of metrics by name and labels."""
    page = server.edge.get(path).text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def count_running(server):
    """The number of running jobs by the server's page, which has it while the server leads.

    A page is a second old at most.
    """
    deadline_s = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline_s:
        server.app.controller.lease_once()
        page = samples(server, "/metrics")
        if count := page.get(("trainshed_jobs", RUNNING, "RUNNING")):
            return count
        time.sleep(0.1)
    raise AssertionError(page)


def test_the_figures_of_an_ended_job_agree_everywhere(server, trainshed):
    job = submit(server, ENDED)
    measure(server, job)
    server.engine.end(AttemptKey(int(job), 1))
    go(server.app.controller, 2)
    event = account(server, job)
    goodput = get(server, f"projects/{ENDED}/jobs/{job}/goodput")
    assert event.message == goodput["message"]
    for field in ("goodput", "at_most", "ettr", "seconds", "cost"):
        assert event.data[field] == goodput[field], field
    held_s = goodput["seconds"]["held"]
    assert goodput["gpu_seconds"]["held"] == pytest.approx(2 * held_s)
    assert goodput["energy_j"] > 0
    place = (*flags_of(server, ENDED), "--format", "json")
    assert trainshed("jobs", "goodput", job, *place).json == goodput
    for by in ("project", "user", "type", "day"):
        report = get(server, f"usage?by={by}&project={ENDED}")
        rows, total = report["rows"], report["total"]
        gpu_seconds = [used for row in rows for used in row["gpu_seconds"].values()]
        assert sum(gpu_seconds) == pytest.approx(2 * held_s, abs=0.01)
        for field in ("amount", "parts"):
            assert total["cost"][field] == pytest.approx(goodput["cost"][field])
        assert sum(row["cost"]["amount"] for row in rows) == pytest.approx(total["cost"]["amount"])
        assert total["energy_j"] == pytest.approx(goodput["energy_j"])
        assert total["jobs"] == 1
    assert trainshed("usage", "--by", "day", *place).json == report
    page = samples(server, "/metrics")
    assert page["trainshed_jobs_finished_total", ENDED, "SUCCEEDED", "none"] == 1
    assert page["trainshed_job_run_seconds_count",] == 1
    assert page["trainshed_job_run_seconds_sum",] <= held_s


def test_the_figures_of_a_running_job_agree_everywhere(server, trainshed):
    job = submit(server, RUNNING)
    measure(server, job)
    path = f"projects/{RUNNING}/jobs/{job}"
    before = get(server, f"{path}/goodput")
    page = samples(server, "/metrics/jobs")
    (row,) = get(server, f"projects/{RUNNING}/progress")["rows"]
    after = get(server, f"{path}/goodput")
    of_job = {name: value for (name, _, of, *_), value in page.items() if of == job}
    assert of_job["trainshed_job_step"] == row["step"] == 8
    assert of_job["trainshed_job_expected_steps"] == row["total"] == 20
    head, _, listed = trainshed("jobs", "list", *flags_of(server, RUNNING)).out.splitlines()
    assert "STEP" in head
    assert "8 of 20" in listed
    costs = [of_job["trainshed_job_cost"], row["cost"]["amount"]]
    for cost in costs:
        assert before["cost"]["amount"] <= cost <= after["cost"]["amount"]
    series = get(server, f"{path}/usage")["series"]
    (steps,) = (one for one in series if one["name"] == "step")
    assert steps["points"][-1][3] == row["step"]
    assert count_running(server) == 1


def test_every_family_is_on_a_page_of_a_running_server(server):
    """So are the names in dashboard, rules and docs: other tests compare them with the families."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    heads = set()
    while "trainshed_servers" not in heads:  # the page of a server that leads has it
        assert time.monotonic() < deadline_s, heads
        server.app.controller.lease_once()
        text = "".join(server.edge.get(path).text for path in ("/metrics", "/metrics/jobs"))
        heads = set(re.findall("^# TYPE ([^ ]+)", text, re.MULTILINE))
    declared = {family.sample_name for family in (*families.FAMILIES, *JOB_FAMILIES)}
    assert declared - heads == {families.OTEL_DROPPED.sample_name}, "only with an endpoint"
