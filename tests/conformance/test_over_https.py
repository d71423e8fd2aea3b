"""Every client over HTTPS, with what ``trainshed env`` prints and nothing else: a call of each.

In ``make test-full`` all other tests of this folder run over HTTPS as well.
"""

import os
import subprocess

import pytest

from conformance.client_scripts import SDKS, bucket_variables, run_script
from conformance.conftest import PROJECT
from conformance.gcloud import needs_gcloud
from e2e.support import custom_job, good, ml_job
from server_process import TRAINSHED

pytestmark = [pytest.mark.over_https, pytest.mark.slow, pytest.mark.timeout(600)]

#: What each call is to find.
WANTED = {
    "vertex_sdk": lambda names: "over-tls" in names,
    "discovery_client": lambda names: "over_tls" in names,
    "cloud_storage": bool,
    "gcsfs_files": bool,
}
NEWEST_ONLY = ("discovery_client", "gcsfs_files")
LOCATION = f"/v1/projects/{PROJECT}/locations/us-central1"


@pytest.fixture(scope="module")
def jobs(server):
    """What the clients are to find."""
    assert server.url.startswith("https://")
    good(server.call("POST", f"/v1/projects/{PROJECT}/jobs", ml_job("over_tls")))
    good(server.call("POST", f"{LOCATION}/customJobs", custom_job("over-tls")))


@needs_gcloud
@pytest.mark.usefixtures("jobs")
def test_gcloud_uploads_a_package_submits_it_and_lists(gcloud, trainer):
    gcloud(
        "ai-platform", "jobs", "submit", "training", "tls_package", "--region", "us-central1",
        "--module-name", "trainer.task", "--package-path", trainer, "--runtime-version", "2.11",
        "--python-version", "3.7", "--staging-bucket", "gs://stage-bkt",
    ).ok()  # fmt: skip
    listed = gcloud("ai-platform", "jobs", "list", "--format", "value(jobId)").ok().stdout
    assert {"tls_package", "over_tls"} <= set(listed.split())
    done = gcloud(
        "ai", "custom-jobs", "list", "--region=us-central1", "--format", "value(displayName)"
    ).ok()
    assert "over-tls" in done.stdout.split()


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("sdk", ["newest", "1.60.0"])
def test_googles_python_clients_call_it(server, sdk):
    calls = [call for call in WANTED if sdk == "newest" or call not in NEWEST_ONLY]
    bucket = bucket_variables(server, PROJECT, "out-bkt")
    results = run_script(
        server,
        SDKS[sdk],
        "https_calls.py",
        server.url,
        server.token,
        *calls,
        GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT="false",
        **bucket,
    )
    for call in calls:
        assert WANTED[call](results[call]), (call, results[call])


@pytest.mark.usefixtures("jobs")
def test_our_own_commands_trust_their_server_and_no_stranger(server):
    def listed(*flags, **environ):
        return subprocess.run(
            [TRAINSHED, "ai-platform", "jobs", "list", "--project", PROJECT, *flags],
            env={**os.environ, "TRAINSHED_TOKEN": server.token, **environ},
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )

    assert "over_tls" in listed("--data-dir", server.data_dir).stdout
    elsewhere = ("--data-dir", server.data_dir / "none", "--url", server.url)
    refused = listed(*elsewhere)
    assert refused.returncode == 1
    assert "is not trusted" in refused.stderr
    assert "--ca-file" in refused.stderr
    ca = server.data_dir / "tls" / "ca-bundle.pem"
    assert "over_tls" in listed(*elsewhere, "--ca-file", ca).stdout
    assert "over_tls" in listed(*elsewhere, TRAINSHED_CA_FILE=str(ca)).stdout
