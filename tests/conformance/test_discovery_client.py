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
def found(server):
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


def test_an_ml_job_is_created_echoed_and_runs(found):
    assert found["ml"]["created"] == "QUEUED"
    assert found["ml"]["echo"]
    assert found["ml"]["ended"] == "SUCCEEDED"
    assert found["ml"]["times"]


def test_labels_are_patched_and_a_stale_etag_is_refused(found):
    assert found["ml"]["patched"] == {"c": "d"}
    assert found["ml"]["stale"][0] == 409


def test_refusals_show_their_status_and_text(found):
    status, text = found["ml"]["again"]
    assert status == 409
    assert "already exists" in text
    status, text = found["ml"]["missing"]
    assert status == 404
    assert "projects/demo-proj/jobs/none" in text
    status, text = found["vertex"]["no_name"]
    assert status == 400
    assert "displayName" in text


def test_lists_are_paged_filtered_and_masked(found):
    assert found["ml"]["listed"] >= 1
    assert found["vertex"]["masked"] == ["displayName", "name"]


def test_a_vertex_job_runs_and_is_deleted(found):
    assert found["vertex"]["ended"] == "JOB_STATE_SUCCEEDED"
    assert found["vertex"]["deleted"]
    assert found["vertex"]["gone"][0] == 404
