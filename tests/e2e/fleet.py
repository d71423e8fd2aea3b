"""What tests of maintenance, hangs, limits and restarts share: orders, stories, real clients."""

import contextlib
import json
import os
import subprocess

from conformance import gcloud as real
from e2e.support import PROJECT, good, log_lines, native, submit, wait_until
from server_process import TRAINSHED, finished

BUCKET = "results"
NODES = "/trainshed/v1/nodes"
FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}
#: A notice in seconds whose end nobody waits for: who does not honour it hangs the test.
LONG_S = 600

#: Reports its steps, and ends.
#: The end of a program of a custom job: a job ends with its primary replica, which here waits until
#: all others have come to this line.
MEETS = """
import json, os, socket, time
spec = json.loads(os.environ["CLUSTER_SPEC"])
host, _, port = spec["cluster"]["workerpool0"][0].rpartition(":")
if spec["task"]["type"] == "workerpool0":
    with socket.create_server((host, int(port))) as server:
        for _ in range(sum(map(len, spec["cluster"].values())) - 1):
            server.accept()
else:
    while True:
        try:
            socket.create_connection((host, int(port)))
            break
        except OSError:
            time.sleep(0.05)
"""
REPORTS = f"""\
import time
from trainshed_trainer import progress
for step in range(1, 78):
    progress(step=step, total=77)
    time.sleep(0.02)
print('trained', flush=True)
{MEETS}"""


def check_figures(server, name, *, replicas):
    """A job of ``REPORTS`` has use, steps, goodput and cost, also on the nodes of a cluster."""
    series = native(server, name, "/usage")["series"]
    for kind in ("cpu", "step"):
        assert len({row["task"] for row in series if row["name"] == kind}) == replicas, series
    assert max(point[3] for row in series if row["name"] == "step" for point in row["points"]) == 77
    said = accounted(server, name)
    goodput = native(server, name, "/goodput")
    assert said["message"] == goodput["message"]
    (attempt,) = goodput["attempts"]
    assert (attempt["first_step"], attempt["last_step"]) == (1, 77), attempt
    assert 0 < goodput["goodput"] <= 1, goodput
    assert goodput["cost"]["amount"] > 0, goodput


def node_of(server):
    """The name of the one node."""
    (node,) = good(server.call("GET", NODES))["nodes"]
    return node["name"]


def maintain(server, notice_s):
    """Take the node out of service, whatever runs on it."""
    return good(
        server.call("POST", f"{NODES}/{node_of(server)}:maintain", {"notice": f"{notice_s}s"})
    )


def resume(server):
    """Take it back."""
    return good(server.call("POST", f"{NODES}/{node_of(server)}:resume"))


def queued(server, name):
    """Wait until a job waits for its next attempt, and nothing of it runs."""
    _come_to(server, name, lambda job: job["state"] == "QUEUED")


def maintained(server, name, notice_s=LONG_S):
    """Maintenance, until a job waits for its next attempt."""
    maintain(server, notice_s)
    queued(server, name)


def running(server, name, attempt=1):
    """Wait until so many attempts have begun to run, and the last one does."""
    _come_to(server, name, lambda job: (job["state"], job["attempt"]) == ("RUNNING", attempt))


def _come_to(server, name, is_there):
    def is_there_yet():
        job = native(server, name)
        assert is_there(job) or job["state"] not in FINAL, story_text(server, name)
        return is_there(job)

    wait_until(is_there_yet, lambda: story_text(server, name), timeout_s=180)


def begun(server, document, words="began"):
    """A job that runs and whose primary has said so."""
    name = submit(server, document)
    task = "master-replica-0" if "jobId" in document else "workerpool0-0"
    wait_for_words(server, name, words, task=task)
    running(server, name)
    return name


def ended(server, name, *, timeout_s=180):
    """Wait for the end; what the native API says then."""

    def end():
        job = native(server, name)
        return job if job["state"] in FINAL else None

    return wait_until(end, lambda: story_text(server, name), timeout_s=timeout_s)


def accounted(server, name):
    """Wait until usage has all of a job that has ended; its event GOODPUT."""
    return wait_until(
        lambda: next(iter(story(server, name, "GOODPUT")), None),
        lambda: f"no event GOODPUT: {story_text(server, name)}",
    )


def cancel(server, name):
    """Cancel a job, and wait until it is gone."""
    good(server.call("POST", f"/v1/{name}:cancel", {}))
    assert ended(server, name)["state"] == "CANCELLED", story_text(server, name)


def reason(job):
    """Why a job waits, once the scheduler has looked."""
    waiting = job.get("waiting")
    return waiting if waiting and waiting["reason"] != "NOT_LOOKED_AT" else None


def in_bucket(document, folder):
    """The same job with a place for its results."""
    output = {"outputUriPrefix": f"gs://{BUCKET}/{folder}"}
    return {**document, "jobSpec": {**document["jobSpec"], "baseOutputDirectory": output}}


def make_bucket(server):
    """Make the bucket of results."""
    good(server.call("POST", f"/storage/v1/b?project={PROJECT}", {"name": BUCKET}))


def story(server, name, kind=None):
    """The events of a job, of one kind or all."""
    events = native(server, name, "/events")["events"]
    return [event for event in events if kind in (None, event["kind"])]


def story_text(server, name):
    """All that is known of a job, for a failing assertion."""
    lines = [f"{line['task']}: {line['message']}" for line in log_lines(server, name)]
    return "\n".join([json.dumps(native(server, name)), *lines[-60:]])


def event_message(server, name, kind):
    """The one sentence of a kind in a job's story."""
    (event,) = story(server, name, kind)
    return event["message"]


def output_lines(server, name, task="workerpool0-0"):
    """What a replica has printed, in all attempts."""
    return [line["message"] for line in log_lines(server, name, task=task)]


def wait_for_words(server, name, words, *, task="workerpool0-0"):
    """Wait until a replica has printed a line that begins so; the line."""

    def first_line():
        return next(
            (line for line in output_lines(server, name, task) if line.startswith(words)), None
        )

    return wait_until(first_line, lambda: story_text(server, name))


def ends_of(server, name, attempt):
    """How the replicas of an attempt ended, by their names: the sentence and the data."""
    return {
        event["data"]["task_name"]: event
        for event in story(server, name, "REPLICA_ENDED")
        if event["attempt"] == attempt
    }


def trainshed(server, *argv):
    """A command of ours; what it printed."""
    env = {
        "NO_COLOR": "1",
        "CLOUDSDK_CORE_PROJECT": PROJECT,
        "TRAINSHED_DATA_DIR": str(server.data_dir),
    }
    done = finished([TRAINSHED, *argv], env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Gcloud:
    """The real command against a server, in a process that has it imported."""

    def __init__(self, warm, variables, folder):
        self._warm = warm
        self._variables = variables
        self._folder = folder

    def __call__(self, *argv):
        return self._warm(argv, self._variables, self._folder)


@contextlib.contextmanager
def ended_after(process):
    """A program that is not left behind by a test that fails."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def start_gcloud(argv, variables, printed):
    """The real command, running on its own and printing into a file."""
    with printed.open("wb") as file:
        return subprocess.Popen(
            [real.GCLOUD, *argv],
            env={**os.environ, **real.quiet(printed.parent / "gcloud"), **variables},
            stdout=file,
            stderr=file,
        )
