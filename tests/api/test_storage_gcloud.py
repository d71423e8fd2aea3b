"""The real gcloud uploads a package and gets its job back (docs/sources/gcloud.md 4)."""

import json
import os
import shutil
import subprocess
import tarfile

import pytest

from api.storage_process import storage_process

GCLOUD = shutil.which("gcloud")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        GCLOUD is None, reason="gcloud is not installed: put the Google Cloud SDK on PATH"
    ),
]


@pytest.fixture
def server(tmp_path):
    with storage_process(tmp_path) as process:
        yield process


@pytest.fixture
def submit(server, tmp_path):
    def run(job, *flags):
        url = f"http://127.0.0.1:{server.port}"
        own = {
            "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
            "CLOUDSDK_AUTH_ACCESS_TOKEN": "one-submitter",
            "CLOUDSDK_CORE_PROJECT": "one-project",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_ML": f"{url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{url}/storage/v1/",
            "CLOUDSDK_STORAGE_UPLOAD_CHUNK_SIZE": "4Mi",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        }
        return subprocess.run(
            [GCLOUD, "ai-platform", "jobs", "submit", "training", job, "--region", "us-central1",
             "--module-name", "trainer.task", "--format", "json", *flags],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "project/trainer"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "task.py").write_text("print('hello')\n")
    return folder


def uris(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["trainingInput"]["packageUris"]


@pytest.mark.full  # conformance/test_over_https.py does, and runs it
def test_gcloud_uploads_a_package(server, submit, package):
    server.make("stage-bkt", token="one-submitter")
    done = submit("j1", "--package-path", str(package), "--staging-bucket", "gs://stage-bkt")
    (uri,) = uris(done)
    path = server.data_dir / "buckets" / uri.removeprefix("gs://")
    with tarfile.open(path) as archive:
        assert "trainer-0.0.0/trainer/task.py" in archive.getnames()


def test_gcloud_uploads_a_large_file_in_pieces(server, submit, tmp_path):
    server.make("out-bkt", token="one-submitter")
    content = os.urandom(9_000_000)
    (tmp_path / "big-1.0.tar.gz").write_bytes(content)
    packages = (
        "--packages",
        str(tmp_path / "big-1.0.tar.gz"),
        "--job-dir",
        "gs://out-bkt/some/dir",
    )
    (uri,) = uris(submit("j2", *packages))
    assert uri.startswith("gs://out-bkt/some/dir/packages/")
    assert (server.data_dir / "buckets" / uri.removeprefix("gs://")).read_bytes() == content


@pytest.mark.full  # conformance/test_gcloud_ai_platform.py has one
def test_gcloud_is_told_that_there_is_no_bucket(submit, package):
    done = submit("j3", "--package-path", str(package), "--staging-bucket", "gs://none-bkt")
    assert done.returncode == 1
    assert "bucket does not exist" in done.stderr
