"""Every job that waits says why, and the change that it is offered is true: it is submitted."""

import time

import pytest
import yaml

from e2e.support import (
    PROJECT,
    custom_job,
    good,
    ml_job,
    native,
    serving,
    submit,
    wait_until,
)

pytestmark = pytest.mark.slow

T4 = "NVIDIA_TESLA_T4"
#: Three places, and four GPUs a project.
SCARCE = f'[fleet]\nslots = 3\n\n[[quota]]\naccelerator = "{T4}"\nlimit = 4\n\n'
ENDLESS = "import time; time.sleep(7200)"
RUNNING = {"RUNNING", "JOB_STATE_RUNNING"}
CANCELLED = {"CANCELLED", "JOB_STATE_CANCELLED"}
#: A job that waits says why within two seconds.
PROMISED_S = 2.0


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("explain") / "data", config=SCARCE) as server:
        yield server


class Queue:
    """Submits endless jobs and cancels them all at the end."""

    def __init__(self, server):
        self.server = server
        self.names = []

    def add(self, document, project=PROJECT):
        self.names.append(submit(self.server, document, project))
        return self.names[-1]

    def run(self, document, project=PROJECT):
        """One that gets its places."""
        name = self.add(document, project)
        self.server.wait_for(f"/v1/{name}", RUNNING)
        return name

    def why(self, name):
        """Why a job waits, once it has been looked at."""

        def looked_at():
            waiting = native(self.server, name, "/explain").get("waiting")
            assert waiting, f"{name} does not wait: {native(self.server, name)}"
            return waiting if waiting["reason"] != "NOT_LOOKED_AT" else None

        return wait_until(looked_at)

    def get_job(self, name):
        """The job in its own dialect."""
        return good(self.server.call("GET", f"/v1/{name}"))

    def end(self, *names):
        """Cancel jobs and see them end."""
        for name in names:
            good(self.server.call("POST", f"/v1/{name}:cancel", {}))
            self.names.remove(name)
        for name in names:
            self.server.wait_for(f"/v1/{name}", CANCELLED)

    def end_all(self):
        """Leave the server as it was."""
        self.end(*self.names[::-1])


@pytest.fixture
def queue(started):
    queue = Queue(started)
    yield queue
    queue.end_all()


def test_a_job_that_waits_for_quota_starts_with_the_gpus_it_is_offered(queue):
    holder = queue.run(custom_job("holder", ENDLESS, gpus=2))
    name = queue.add(ml_job("greedy", ENDLESS, gpus=4))
    why = queue.why(name)
    assert why["reason"] == "QUOTA"
    assert why["message"] == (
        f"needs 4 {T4}; 2 of 4 of project {PROJECT}'s quota in us-central1 are in use"
    )
    assert why["blockers"] == [f"quota of {T4} of project {PROJECT} in us-central1", holder]
    assert why["queuePosition"] == 1
    text = f"would start now with 2 instead of 4 {T4}"
    assert why["change"] == {
        "field": "accelerator_count",
        "role": "primary",
        "asked": "4",
        "accepted": "2",
        "text": text,
    }
    job = queue.get_job(name)
    assert job["errorMessage"] == f"{why['message']}; it {text}"
    assert job["jobPosition"] == "1"

    queue.end(name)
    queue.run(ml_job("modest", ENDLESS, gpus=int(why["change"]["accepted"])))


def test_a_check_says_before_a_submission_what_the_queue_says_after_it(queue):
    """The text of the waiting job, with the change that it is offered, starts."""
    queue.run(custom_job("holder", ENDLESS, gpus=2))
    root = f"/trainshed/v1/projects/{PROJECT}/jobs"
    body = {
        "text": yaml.safe_dump(custom_job("greedy", ENDLESS, gpus=4)),
        "location": "us-central1",
    }
    start = good(queue.server.call("POST", f"{root}:check", body))["start"]
    assert (start["now"], start["refused"], start["reason"]) == (False, False, "QUOTA")

    name = queue.add(custom_job("greedy", ENDLESS, gpus=4))
    why = queue.why(name)
    assert (start["message"], start["change"]["sentence"]) == (
        why["message"], why["change"]["text"],
    )  # fmt: skip
    stored = native(queue.server, name, "/document")
    queue.end(name)
    body = {"text": stored["changedText"], "location": stored["location"]}
    assert good(queue.server.call("POST", f"{root}:check", body))["start"]["now"]
    job = good(queue.server.call("POST", root, body))
    queue.names.append(job["name"])
    queue.server.wait_for(f"/v1/{job['name']}", RUNNING)


def test_who_waits_behind_another_is_told_whom_and_moves_up(queue):
    holder = queue.run(custom_job("holder", ENDLESS, gpus=2))
    first = queue.add(custom_job("first", ENDLESS, gpus=4))
    queue.why(first)
    second = queue.add(custom_job("second", ENDLESS, gpus=2))
    why = queue.why(second)
    assert (why["reason"], why["blockers"], why["queuePosition"]) == ("BEHIND_QUEUE", [first], 2)
    assert why["message"] == f"waits behind {first}, which waits for the same quota"
    assert queue.get_job(second)["labels"] == {
        "trainshed-waiting": "behind_queue",
        "trainshed-queue-position": "2",
    }
    assert queue.get_job(first)["labels"] == {
        "trainshed-waiting": "quota",
        "trainshed-queue-position": "1",
    }

    queue.end(first)
    queue.server.wait_for(f"/v1/{second}", RUNNING)
    assert "labels" not in queue.get_job(second)
    assert "waiting" not in native(queue.server, second, "/explain")

    third = queue.add(ml_job("third", ENDLESS, gpus=1))
    why = queue.why(third)
    assert why["reason"] == "QUOTA"
    assert why["blockers"][1:] == [holder, second]
    assert "change" not in why, "no single change would do"
    queue.end(holder)
    queue.server.wait_for(f"/v1/{third}", RUNNING)
    assert not {"errorMessage", "jobPosition"} & set(queue.get_job(third))


def test_a_gang_without_room_starts_with_the_workers_it_is_offered(queue):
    holder = queue.run(custom_job("holder", ENDLESS))
    name = queue.add(custom_job("gang", ENDLESS, workers=2))
    why = queue.why(name)
    assert (why["reason"], why["blockers"]) == ("CAPACITY", [holder])
    change = why["change"]
    assert (change["field"], change["role"]) == ("replica_count", "worker")
    assert change["text"] == "would start now with 1 instead of 2 workers"

    queue.end(name)
    queue.run(custom_job("smaller gang", ENDLESS, workers=int(change["accepted"])))


def test_a_job_that_would_delay_an_older_one_is_told_so_and_a_short_one_is_not(queue):
    queue.run(custom_job("holder", ENDLESS))
    gang = queue.add(custom_job("gang", ENDLESS, workers=2))
    queue.why(gang)
    name = queue.add(custom_job("long", ENDLESS))
    why = queue.why(name)
    assert (why["reason"], why["blockers"]) == ("RESERVED", [gang])
    assert "would delay" in why["message"]

    short = custom_job("short", ENDLESS)
    short["jobSpec"]["scheduling"] = {"timeout": "3600s"}
    queue.run(short)
    assert queue.why(gang)["reason"] == "CAPACITY", "it was not overtaken for long"


def test_what_others_do_is_counted_and_not_named(queue):
    for number in range(3):
        queue.run(custom_job(f"hidden-{number}", ENDLESS), "other-proj")
    why = queue.why(queue.add(custom_job("mine", ENDLESS)))
    assert why["reason"] == "CAPACITY"
    assert why["blockers"] == ["3 of other projects"]
    assert "other-proj" not in str(why)
    later = queue.add(custom_job("mine", ENDLESS), "third-proj")
    assert PROJECT not in str(queue.why(later))


@pytest.mark.parametrize(
    ("document", "status", "word", "admitting"),
    [
        (custom_job("wide", workers=4), 400, "FAILED_PRECONDITION", custom_job("w", workers=2)),
        (
            custom_job("rich", gpus=2, workers=2),
            429,
            "RESOURCE_EXHAUSTED",
            custom_job("r", gpus=2, workers=1),
        ),
    ],
)
def test_what_could_never_run_is_refused_with_what_could(
    started, document, status, word, admitting
):
    path = f"/v1/projects/{PROJECT}/locations/us-central1/customJobs"
    code, answer = started.call("POST", path, document)
    pools = [d["jobSpec"]["workerPoolSpecs"][1]["replicaCount"] for d in (admitting, document)]
    assert (code, answer["error"]["status"]) == (status, word)
    message = answer["error"]["message"]
    assert message.endswith(f"could run with {pools[0]} instead of {pools[1]} workers"), message
    name = submit(started, admitting)
    assert started.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED"})


def test_the_reason_is_there_within_the_promised_time(queue):
    queue.run(custom_job("holder", ENDLESS, workers=2))
    times = []
    for number in range(5):
        began = time.monotonic()
        queue.why(queue.add(custom_job(f"waits-{number}", ENDLESS)))
        times.append(time.monotonic() - began)
    assert sorted(times)[2] < PROMISED_S, times
