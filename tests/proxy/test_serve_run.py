"""``trainshed serve --run``: a throw-away server for one command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from server_process import TRAINSHED, Waiting, finished

#: A job that says a line and fails, and one that never ends by itself; then the command ends.
SUBMIT = """
import json, os, sys, time, urllib.request
url = os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"]
token = open(os.environ["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"]).read().strip()
place = "v1/projects/demo/locations/us-central1/customJobs"

def call(path, document=None):
    data = json.dumps(document).encode() if document else None
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers)) as answer:
        return json.load(answer)

def submit(name, code):
    container = {"imageUri": "gcr.io/cloud-aiplatform/training/tf-cpu.2-11:latest",
                 "command": ["python3", "-c", code]}
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
            "containerSpec": container}
    return call(place, {"displayName": name, "jobSpec": {"workerPoolSpecs": [pool]}})["name"]

failing = submit("failing", "print('epoch 1'); raise SystemExit('out of luck')")
endless = submit("endless", "import time; print('begun', flush=True); time.sleep(100000)")
while call(f"v1/{failing}")["state"] != "JOB_STATE_FAILED":
    time.sleep(0.1)
while call(f"v1/{endless}")["state"] != "JOB_STATE_RUNNING":
    time.sleep(0.1)
data = os.path.dirname(os.environ["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"])
print(json.dumps({"data": data}))
sys.exit(3)
"""


@pytest.fixture(scope="module")
def done():
    """A command whose jobs fail and go on; what was printed, and the server's folder."""
    done = finished(
        [TRAINSHED, "serve", "--run", "--project", "demo", "--", sys.executable, "-c", SUBMIT]
    )
    assert done.returncode == 3, done.stderr
    return done, Path(json.loads(done.stdout)["data"])


def test_the_log_of_a_failed_job_is_shown_and_the_exit_status_is_the_commands(done):
    printed = done[0].stderr
    assert "job failing failed: The replica workerpool0-0 exited with a non-zero status" in printed
    assert "  workerpool0-0 | epoch 1\n  workerpool0-0 | out of luck\n" in printed
    assert printed.count("job failing failed") == 1


def test_the_server_its_folder_and_its_jobs_are_gone(done):
    assert not done[1].exists()
    text = str(done[1]).encode()
    assert [words for words in map(words_of, Path("/proc").glob("[0-9]*")) if text in words] == []


def test_trainshed_in_the_command_acts_on_the_throw_away_server_with_its_buckets(tmp_path):
    words = ["--project", "demo", "--bucket", "gs://mine", "--bucket", "other"]
    show = f"{TRAINSHED} buckets create more && {TRAINSHED} buckets list --format json"
    done = finished(
        [TRAINSHED, "serve", "--run", *words, "--", "sh", "-c", show],
        env={
            **os.environ,
            "TRAINSHED_DATA_DIR": str(tmp_path),
            "TRAINSHED_URL": "http://127.0.0.1:9",
            "TRAINSHED_TOKEN": "of-another-server",
        },
    )
    assert done.returncode == 0, done.stderr
    for name in ("demo-staging", "mine", "other", "more"):
        assert name in done.stdout
    assert list(tmp_path.iterdir()) == []


def words_of(process):
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_server_ends_with_the_process_that_started_it(tmp_path):
    show = "import os; print(os.environ['CLOUDSDK_AUTH_ACCESS_TOKEN_FILE'], flush=True); input()"
    process = subprocess.Popen(
        [TRAINSHED, "serve", "--run", "--", sys.executable, "-c", show],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        folder = Path(process.stdout.readline().strip()).parent
        assert folder.is_dir()
        process.kill()
    waiting = Waiting(120)
    while folder.exists():
        assert not waiting.is_over
        waiting.pause()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--run",), "needs a command after a bare --"),
        (("--run", "--data-dir", "x", "--", "true"), "--data-dir does not go with --run"),
        (("--run", "--", "no-such-command"), "there is no such command"),
        (("--offline",), "--offline needs --run"),
        (("--", "true"), "needs --run"),
    ],
)
def test_words_that_do_not_go_together_are_refused(words, message):
    done = finished([TRAINSHED, "serve", *words])
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
