"""The pytest plugin, in runs of pytest of their own, as its users have them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
#: The example of docs/how-to/ci.md.
EXAMPLE = re.search(
    r"```python\n(.*?)```", (ROOT / "docs/how-to/ci.md").read_text(), re.DOTALL
).group(1)

TESTS = """
import json, time, urllib.request

IMAGE = "gcr.io/cloud-aiplatform/training/tf-cpu.2-11:latest"
JOBS = "/v1/projects/demo/locations/us-central1/customJobs"


def submit(server, code):
    container = {"imageUri": IMAGE, "command": ["python3", "-c", code]}
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
            "containerSpec": container}
    spec = {"displayName": "mine", "jobSpec": {"workerPoolSpecs": [pool]}}
    job = server.server.call("POST", JOBS, spec)
    while not job["state"].endswith(("FAILED", "SUCCEEDED")):
        time.sleep(0.1)
        job = server.server.call("GET", f"/v1/{job['name']}")
    return job["state"]


def names_of_jobs(server):
    return [job["name"] for job in server.server.call("GET", JOBS).get("customJobs", [])]


def test_first_reaches_its_server_by_googles_name(trainshed_server):
    url = "https://us-central1-aiplatform.googleapis.com" + JOBS
    headers = {"Authorization": f"Bearer {trainshed_server.token}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        assert json.load(answer).get("customJobs", []) == []
    assert submit(trainshed_server, "print('trained')") == "JOB_STATE_SUCCEEDED"
    assert len(names_of_jobs(trainshed_server)) == 1


def test_next_has_a_server_that_nothing_has_used_and_fails(trainshed_server):
    assert names_of_jobs(trainshed_server) == []
    assert submit(trainshed_server, "raise SystemExit('out of luck')") == "JOB_STATE_SUCCEEDED"
"""
SESSION = """

def test_one(trainshed_session_server):
    assert submit(trainshed_session_server, "pass") == "JOB_STATE_SUCCEEDED"


def test_another(trainshed_session_server, trainshed_server):
    assert len(names_of_jobs(trainshed_session_server)) == 1
    assert names_of_jobs(trainshed_server) == []
"""


def run_pytest(folder, text, *flags, python=sys.executable):
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_mine.py").write_text(text)
    return subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "trainshed.testing.plugin", "-p", "no:cacheprovider",
         "--basetemp", folder / "inner", *flags],
        cwd=folder,
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTEST")},
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_each_test_has_a_new_server_and_a_failure_shows_the_log_of_its_job(tmp_path):
    done = run_pytest(tmp_path, TESTS)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "Trainshed jobs that failed" in done.stdout
    assert "workerpool0-0 | out of luck" in done.stdout
    assert "trained" not in done.stdout


@pytest.mark.full
@pytest.mark.slow
def test_servers_of_a_session_and_of_several_processes(tmp_path):
    done = run_pytest(tmp_path, TESTS.partition("def test_first_")[0] + SESSION)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    done = run_pytest(tmp_path, TESTS, "-n", "2")
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.slow
def test_the_example_of_the_documentation_passes(tmp_path):
    python = ROOT / ".venv-google" / "bin" / "python"
    if not python.exists():
        pytest.skip(".venv-google is not installed; make test installs it")
    (tmp_path / "task.py").write_text("print('trained')\n")
    done = run_with_sdk(tmp_path, python)
    assert done.returncode == 0, done.stdout + done.stderr


def run_with_sdk(folder, python):
    """The SDK's packages, ours, and pytest, in one process."""
    sdk = next((python.parent.parent / "lib").glob("python3*/site-packages"))
    (folder / "conftest.py").write_text(f"import sys\nsys.path.append({str(sdk)!r})\n")
    return run_pytest(folder, EXAMPLE)


def test_the_plugin_imports_nothing_until_a_test_asks_for_a_server():
    code = (
        "import pytest, sys; before = set(sys.modules); import trainshed.testing.plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.split() == ["trainshed", "trainshed.testing", "trainshed.testing.plugin"]
