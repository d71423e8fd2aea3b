"""The unmodified google-api-python-client: build('ml', 'v1') and build('aiplatform', 'v1')."""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
PYTHON = HERE.parent.parent / ".venv-google" / "bin" / "python"


@pytest.fixture(scope="module")
def results(server):
    done = subprocess.run(
        [PYTHON, "-W", "ignore", HERE / "discovery_calls.py", server.url, server.token],
        env={**os.environ, **server.certificates},
        text=True,
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}\n{server.output()[-3000:]}"
    return json.loads(done.stdout)


def test_an_ml_job_is_created_echoed_and_runs(results):
    assert results["ml"]["created"] == "QUEUED"
    assert results["ml"]["echo"]
    assert results["ml"]["ended"] == "SUCCEEDED"
    assert results["ml"]["times"]


def test_labels_are_patched_and_a_stale_etag_is_refused(results):
    assert results["ml"]["patched"] == {"c": "d"}
    assert results["ml"]["stale"][0] == 409


def test_refusals_show_their_status_and_text(results):
    status, text = results["ml"]["again"]
    assert status == 409
    assert "already exists" in text
    status, text = results["ml"]["missing"]
    assert status == 404
    assert "projects/demo-proj/jobs/none" in text
    status, text = results["vertex"]["no_name"]
    assert status == 400
    assert "displayName" in text


def test_lists_are_paged_filtered_and_masked(results):
    assert results["ml"]["listed"] >= 1
    assert results["vertex"]["masked"] == ["displayName", "name"]


def test_a_vertex_job_runs_and_is_deleted(results):
    assert results["vertex"]["ended"] == "JOB_STATE_SUCCEEDED"
    assert results["vertex"]["deleted"]
    assert results["vertex"]["gone"][0] == 404
