"""``jobs check``, ``submit``, ``document``, ``label``, ``delete`` and ``projects list``."""

from types import SimpleNamespace

import pytest
import yaml

from cli.conftest import FINAL, pool
from trainshed.cli.jobs import job_texts
from trainshed.client.faults import Unreachable

END = "pass"


def custom(program=END, **machine):
    job = {"displayName": "text", "jobSpec": {"workerPoolSpecs": [pool(program)]}}
    job["jobSpec"]["workerPoolSpecs"][0]["machineSpec"].update(machine)
    return yaml.safe_dump(job)


@pytest.fixture
def job_file(written):
    return lambda text: str(written("job.yaml", text))


def test_check_prints_places_edits_and_whether_it_would_start(client, job_file):
    valid = client("jobs", "check", job_file(custom()), "--region", "us-central1")
    assert valid.code == 0, valid.err
    assert "job.yaml: valid" in valid.out
    assert "USD an hour" in valid.out
    assert "start: now" in valid.out
    text = custom(acceleratorType="NVIDIA_TESLA_T4", acceleratorCount=3)
    refused = client("jobs", "check", job_file(text), "--region", "us-central1")
    assert refused.code == 1
    line = next(i for i, words in enumerate(text.splitlines(), 1) if "acceleratorCount" in words)
    assert f"\n  {line}:" in refused.out
    assert "(accepted: 1, 2 or 4)\n" in refused.out
    assert ": Use 4\n" in refused.out
    answer = client("jobs", "check", job_file(text), "--region", "us-central1", "--format", "json")
    assert answer.json["violations"][0]["edit"]["text"] == "4"


def test_a_text_is_submitted_printed_labelled_and_deleted(client, job_file, server):
    words = ("--region", "us-central1", "--format", "json")
    job = client("jobs", "submit", job_file(custom()), *words).json
    server.wait_for(f"/v1/{job['name']}", FINAL)
    number = job["job"]
    printed = client("jobs", "document", number)
    assert yaml.safe_load(printed.out)["displayName"] == "text"
    assert "--region us-central1" in printed.err
    again = client("jobs", "submit", job_file(printed.out), *words).json
    server.wait_for(f"/v1/{again['name']}", FINAL)
    assert client("jobs", "document", number, "--changed").code == 2
    labelled = client("jobs", "label", number, "--update-labels", "a=b,c=d")
    assert labelled.out == f"labels of {number}: a=b, c=d\n"
    removed = client("jobs", "label", number, "--remove-labels", "a", "--format", "json")
    assert removed.json == {"labels": {"c": "d"}}
    assert client("jobs", "label", number).code == 2
    assert client("jobs", "delete", number, again["job"]).out.count("is deleted\n") == 2
    missing = client("jobs", "delete", number)
    assert (missing.code, missing.out) == (1, "")


def test_projects_are_listed_with_their_open_jobs(client, job_file):
    client("jobs", "submit", job_file(custom()), "--region", "us-central1")
    assert client("projects", "list").out.split()[:3] == ["PROJECT", "OPEN", "JOBS"]
    rows = client("projects", "list", "--format", "json").json
    assert "local" in {row["id"] for row in rows}


class LossyServer:
    """A server that stores a job and whose first answer is lost."""

    def __init__(self):
        self.bodies = []

    def call(self, _, path, body):
        self.bodies.append(body)
        if len(self.bodies) == 1:
            raise Unreachable("the connection was closed")
        return {"name": path}


def test_a_submission_whose_answer_is_lost_is_sent_again_with_its_id():
    server = LossyServer()
    context = SimpleNamespace(server=server, project="p")
    assert job_texts._submit(context, {"text": "a"})["name"].endswith("/p/jobs")
    first, again = server.bodies
    assert first == again
    assert len(first["requestId"]) == 32
