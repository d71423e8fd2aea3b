"""A server for the conformance tests of a file, and the real clients pointed at it."""

import json
import secrets
import shutil
import sys

import pytest
import yaml

from conformance import gcloud as real
from e2e.support import log_lines
from server_process import ServerProcess

#: An administrator's table: what stands in for the images that the tests name.
#: No container runtime, whatever the machine has: an image without a row is refused.
CONFIG = f"""\
[fleet]
container_runtime = "none"

[[environment]]
name = "tests"
python = "{sys.executable}"

[[image]]
image = "registry.test/*"
environment = "tests"
entrypoint = ["python", "-c", "import sys; print('entry point', sys.argv[1:])"]

[[image]]
image = "gcr.io/x/*"
environment = "tests"
"""

PROJECT = "demo-proj"
BUCKETS = ("stage-bkt", "out-bkt")


def pytest_generate_tests(metafunc):
    """Run marked tests over HTTPS and others over HTTP; `make test-full` runs all over HTTPS."""
    if "server" in metafunc.fixturenames:
        is_marked = metafunc.definition.get_closest_marker("over_https") is not None
        https = pytest.param("https", marks=() if is_marked else pytest.mark.full)
        ways = [https] if is_marked else ["http", https]
        metafunc.parametrize("server", ways, indirect=True, scope="module")


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    data = tmp_path_factory.mktemp("service")
    is_https = getattr(request, "param", "http") == "https"  # others' tests have the plain one
    https = f"[server]\nhttps = {str(is_https).lower()}\n"
    (data / "config.toml").write_text(https + CONFIG)
    server = ServerProcess(data, environ={"TRAINSHED_CACHE_DIR": str(data / "cache")})
    server.start()
    for bucket in BUCKETS:
        status, answer = server.call("POST", f"/storage/v1/b?project={PROJECT}", {"name": bucket})
        assert status == 200, answer
    yield server
    server.stop()


@pytest.fixture(scope="session")
def gcloud_at(tmp_path_factory):
    """Return the variables of ``trainshed env`` for a server at some address."""
    folder = tmp_path_factory.mktemp("tokens")

    def variables(url, text="some-token"):
        token = folder / f"{abs(hash(text))}"
        token.write_text(text)
        return {
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
            "CLOUDSDK_CORE_PROJECT": PROJECT,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_ML": f"{url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": f"{url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{url}/storage/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{url}/",
            "CLOUDSDK_COMPUTE_REGION": "us-central1",
            "CLOUDSDK_AI_REGION": "us-central1",
            "CLOUDSDK_ML_ENGINE_POLLING_INTERVAL": "2",
        }

    return variables


@pytest.fixture(scope="module")
def gcloud_env(server, gcloud_at):
    """Return the variables with which gcloud uses the server."""
    return gcloud_at(server.url, server.token) | server.certificates


@pytest.fixture(scope="session")
def warm(tmp_path_factory):
    warm = real.Warm(tmp_path_factory.mktemp("gcloud"))
    yield warm
    warm.close()


@pytest.fixture
def gcloud(warm, gcloud_env, tmp_path):
    """gcloud in a warm process: many commands in little time."""
    return lambda *argv, **env: warm(argv, {**gcloud_env, **env}, tmp_path)


@pytest.fixture
def real_gcloud(gcloud_env, tmp_path):
    """The command itself, as a user starts it."""
    config = tmp_path / "gcloud-config"
    return lambda *argv, **env: real.once(argv, {**gcloud_env, **env}, tmp_path, config_dir=config)


@pytest.fixture
def create_study(tmp_path):
    """Create a study from the file; return the command's output."""

    def creating(gcloud, document, *flags, name="hp", track=()):
        (tmp_path / "hpt.yaml").write_text(yaml.safe_dump(document))
        return gcloud(
            *track, "ai", "hp-tuning-jobs", "create", "--region=us-central1",
            "--display-name", name, "--config", tmp_path / "hpt.yaml",
            "--format", "value(name)", *flags,
        )  # fmt: skip

    return creating


@pytest.fixture
def trial_arguments(server):
    """Return the arguments of each trial's program, by trial."""

    def telling(name):
        lines = [line for line in log_lines(server, name) if line["message"].startswith("told ")]
        return {line["trial"]: json.loads(line["message"].removeprefix("told ")) for line in lines}

    return telling


@pytest.fixture
def trainer(tmp_path, met):
    """A small trainer package that prints its arguments."""
    package = tmp_path / "proj" / "trainer"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "task.py").write_text(TASK + met + THEN)
    return package


@pytest.fixture
def own_folder(server):
    """A folder in a bucket, which a job's programs and a test can access."""
    folder = server.data_dir / "buckets" / BUCKETS[-1] / secrets.token_hex(8)
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def met(own_folder):
    """Return code in which a primary waits for all replicas: a job ends with its primary."""
    return MET.replace("FOLDER", repr(str(own_folder / "met")))


MET = """
import json, os, time
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
task = config.get("task", {})
os.makedirs(FOLDER, exist_ok=True)
open(os.path.join(FOLDER, f"{task.get('type')}-{task.get('index')}"), "w").close()
count = sum(map(len, config.get("cluster", {}).values()))
while task.get("type") in ("master", "chief") and len(os.listdir(FOLDER)) < count:
    time.sleep(0.05)
"""
TASK = """\
import json, os, sys, time
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
print("argv", json.dumps(sys.argv[1:]), flush=True)
print("task", json.dumps(config.get("task", {})), flush=True)
print(json.dumps({"severity": "WARNING", "message": "from a json line"}), flush=True)
"""
THEN = """
if "--sleep" in sys.argv:
    time.sleep(float(sys.argv[sys.argv.index("--sleep") + 1]))
if "--fail" in sys.argv:
    sys.exit(3)
print("trained", flush=True)
"""
