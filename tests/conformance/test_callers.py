"""Other callers than gcloud and the SDK run a job, unmodified (docs/compatibility/callers.md).

Most of them know one address, ``us-central1-aiplatform.googleapis.com``, and gRPC on port 443.  The
server takes that port at an address of loopback's, and each caller sees a hosts file of its own.
"""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from server_process import ServerProcess
from trainshed.cli.admin.env import airflow_settings
from trainshed.workbench.client_settings import ClientTarget

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NAME = "us-central1-aiplatform.googleapis.com"
PROJECT = "demo-proj"
CONFIG = f"""\
[server]
allowed_hosts = ["{NAME}"]

[[environment]]
name = "tests"
python = "{sys.executable}"

[[image]]
image = "registry.test/*"
environment = "tests"
"""
#: With a hosts file of its own; only root may mount, and take port 443.
FRONTED = ("unshare", "-m", "--propagation", "private", "sh", "-c")
MOUNT = 'mount --bind "$HOSTS" /etc/hosts && exec "$@"'
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="run as root: port 443, a mount")


@pytest.fixture(scope="module")
def fronted(tmp_path_factory):
    """A server that callers reach by Google's own name, and the key of a service account."""
    data = tmp_path_factory.mktemp("fronted")
    (data / "config.toml").write_text(CONFIG)
    address = "127.{}.{}.1".format(*secrets.token_bytes(2))
    flags = ("--host", address, "--grpc-port", "443") if os.geteuid() == 0 else ()
    server = ServerProcess(data, *flags, environ={"TRAINSHED_CACHE_DIR": str(data / "cache")})
    server.start()
    (data / "hosts").write_text(f"127.0.0.1 localhost\n{address} {NAME}\n")
    create_key = (
        "keys",
        "create",
        "--name",
        "ci",
        "--project",
        PROJECT,
        "--out",
        data / "key.json",
    )
    subprocess.run([*server.program, *create_key, "--data-dir", data], check=True, timeout=60)
    server.call("POST", f"/storage/v1/b?project={PROJECT}", {"name": "stage-bkt"})
    yield server
    server.stop()


def python_of(folder):
    python = ROOT / folder / "bin/python"
    if not python.exists():
        pytest.skip(f"{folder} is not installed; make test-full installs it")
    return python


def run(server, argv, environ, *, hosts=False):
    """What a caller came to; it is told of the server by its environment alone."""
    own = {
        **os.environ,
        "GOOGLE_APPLICATION_CREDENTIALS": str(server.data_dir / "key.json"),
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": server.address["ca"],
        "HOSTS": str(server.data_dir / "hosts"),
        **environ,
    }
    front = (*FRONTED, MOUNT, "sh") if hosts else ()
    done = subprocess.run(
        [*front, *argv], env=own, text=True, capture_output=True, timeout=600, check=False
    )
    output = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{server.output()[-2000:]}"
    assert done.returncode == 0, output
    return next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), output)


def test_a_script_over_plain_rest(fronted):
    python = python_of(".venv-google")
    environ = {"VERTEX_ENDPOINT": fronted.url}
    line = run(fronted, [python, HERE / "callers/plain_rest.py"], environ)
    assert line == "RESULT JOB_STATE_SUCCEEDED"


@pytest.mark.full
@needs_root
def test_a_worker_of_prefect(fronted, tmp_path):
    python = python_of(".venv-callers")
    environ = {"PREFECT_HOME": str(tmp_path), "PREFECT_LOGGING_TO_API_ENABLED": "false"}
    argv = [python, HERE / "callers/prefect_worker.py"]
    assert run(fronted, argv, environ, hosts=True) == "RESULT 0"


@pytest.mark.full
@needs_root
def test_the_custom_job_component_of_googles_pipeline_components(fronted, tmp_path):
    python = python_of(".venv-callers")
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "registry.test/p/img:1", "command": ["python", "-c", ""]},
    }
    payload = {"display_name": "by-kfp", "job_spec": {"worker_pool_specs": [pool]}}
    module = "google_cloud_pipeline_components.container.v1.custom_job.launcher"
    resources = tmp_path / "resources" / "gcp_resources"
    run(
        fronted,
        [python, "-m", module, "--type", "CustomJob", "--project", PROJECT, "--location",
         "us-central1", "--payload", json.dumps(payload), "--gcp_resources", resources],
        {},
        hosts=True,
    )  # fmt: skip
    [resource] = json.loads(resources.read_text())["resources"]
    _, _, name = resource["resourceUri"].partition("/v1/")
    job = fronted.call("GET", f"/v1/{name}")[1]
    assert (job["displayName"], job["state"]) == ("by-kfp", "JOB_STATE_SUCCEEDED")


@pytest.mark.full
def test_an_operator_of_airflow_by_the_settings_that_env_prints(fronted, tmp_path):
    python = python_of(".venv-airflow")
    (tmp_path / "token").write_text(fronted.token)
    target = ClientTarget(
        url=fronted.url, grpc=None, bundle=fronted.address["ca"], project=PROJECT,
        region="us-central1", bucket="stage-bkt", token_file=tmp_path / "token",
    )  # fmt: skip
    (tmp_path / "config").mkdir()
    settings = airflow_settings(target, str(fronted.data_dir / "key.json"))
    (tmp_path / "config/airflow_local_settings.py").write_text(settings)
    argv = [python, HERE / "callers/airflow_operator.py"]
    line = run(fronted, argv, {"AIRFLOW_HOME": str(tmp_path)})
    assert line.startswith("RESULT gs://stage-bkt/")
