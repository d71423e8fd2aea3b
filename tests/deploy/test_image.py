"""The image of deploy/Dockerfile, built and run by a docker daemon of the tests' own."""

import json
import shutil
from pathlib import Path

import pytest

import trainshed
from collector import skip_without_opentelemetry
from deploy.python_base import make_base
from engines.docker_daemon import docker, docker_with_image
from engines.docker_daemon import why_not as why_no_docker
from installed.stranger import make_dist
from server_process import Waiting

skip_without_opentelemetry()

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_no_docker()), reason=why_no_docker()),
]

ROOT = Path(__file__).parents[2]
BASE = "trainshed-test/base:1"
IMAGE = "trainshed-test/trainshed:1"
#: No bridge is there: a test asks the server from within its container.
ALONE = ("--network", "none")
#: What docs/how-to/ci.md gives to a user that the image does not know.
OWN_FOLDERS = ("-e", "HOME=/tmp", "-e", "TRAINSHED_CACHE_DIR=/tmp/cache")
TRAINER = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-0:latest"
#: A job that shows that it has the trainer library, and as which user it runs.
PRINT_USER = "import os; import trainshed_trainer; print(f'runs as {os.getuid()}')"
SLEEP = "import time; time.sleep(100000)"
GET_HEALTH = """
import ssl, urllib.request
context = ssl.create_default_context(cafile="/var/lib/trainshed/tls/ca-bundle.pem")
urllib.request.urlopen("https://localhost:8080/healthz", context=context).read()
"""
#: Prints the name of the folder that the server of a Kubernetes engine lends to pods.
BUNDLE = """
from trainshed.engines.kubernetes import factory, runtime
from trainshed.engines.warden import archive
print(runtime.bundle(archive.build()).name)
"""
#: Submits PRINT_USER to a throw-away server, waits for its end and prints state and log.
SUBMIT = f"""
import json, os, time, urllib.request
url = os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"]
token = open(os.environ["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"]).read().strip()

def call(path, document=None):
    data = json.dumps(document).encode() if document else None
    headers = {{"Authorization": f"Bearer {{token}}", "Content-Type": "application/json"}}
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers)) as answer:
        return json.load(answer)

code = {PRINT_USER!r} + "; raise SystemExit(0 if os.getuid() == int(os.environ['WANTED']) else 1)"
container = {{"imageUri": {TRAINER!r}, "command": ["python3", "-c", code],
              "env": [{{"name": "WANTED", "value": str(os.getuid())}}]}}
pool = {{"machineSpec": {{"machineType": "n1-standard-4"}}, "replicaCount": 1,
         "containerSpec": container}}
job = {{"displayName": "user", "jobSpec": {{"workerPoolSpecs": [pool]}}}}
name = call("v1/projects/demo/locations/us-central1/customJobs", job)["name"]
while (state := call("v1/" + name)["state"]) not in ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED"):
    time.sleep(0.1)
print(state)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """Start a daemon and build the image; yields the environment of its clients."""
    context = tmp_path_factory.mktemp("context")
    dist = make_dist(tmp_path_factory.mktemp("made"))
    shutil.copytree(dist, context / "dist")
    with docker_with_image(("--bridge=none",)) as env:
        make_base(env, BASE, next(dist.glob("trainshed-*.whl")))
        build = docker(
            {**env, "DOCKER_BUILDKIT": "0"},
            *("build", *ALONE, "--build-arg", f"BASE={BASE}"),
            *("--build-arg", "PIP_FLAGS=--no-index", "-f", ROOT / "deploy/Dockerfile"),
            *("-t", IMAGE, context),
            check=False,
        )
        assert build.returncode == 0, build.stdout.decode()[-3000:] + build.stderr.decode()[-3000:]
        yield env


@pytest.fixture
def start(daemon, tmp_path):
    """Start the image's server with a volume; all of its containers are removed at the end."""
    volume = f"trainshed-{tmp_path.name}"
    containers = []

    def start_server(*flags):
        words = ("run", "--detach", *ALONE, *flags, "-v", f"{volume}:/var/lib/trainshed", IMAGE)
        containers.append(Container(daemon, docker(daemon, *words).stdout.decode().strip()))
        containers[-1].wait_until_healthy()
        return containers[-1]

    yield start_server
    for container in containers:
        docker(daemon, "rm", "--force", container.name)


class Container:
    """A container of the image that runs a server."""

    def __init__(self, daemon, name):
        self.daemon, self.name = daemon, name

    def wait_until_healthy(self):
        waiting = Waiting(120)
        while docker(self.daemon, *self._exec("python3", "-c", GET_HEALTH), check=False).returncode:
            assert self.inspect("State.Running") == "true", self.log()
            assert not waiting.is_over, self.log()
            waiting.pause()

    def run(self, *words):
        """Run a command in the container; return what it printed."""
        done = docker(self.daemon, *self._exec(*words), check=False)
        printed = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == 0, printed + self.log()
        return printed

    def submit(self, name, code, *flags):
        """Submit a job of one replica with the image's own command line."""
        pool = f"machine-type=n1-standard-4,container-image-uri={TRAINER}"
        job = ("--display-name", name, "--worker-pool-spec", pool, "--project", "demo")
        program = ("--command", "python3,-c", "--args", code)
        return self.run("trainshed", "ai", "custom-jobs", "create", *job, *program, *flags)

    def read_states(self):
        """The states of all jobs by name."""
        text = self.run("trainshed", "jobs", "list", "--project", "demo", "--format", "json")
        return {job["displayName"]: job["state"] for job in json.loads(text)}

    def wait_until_running(self, name):
        waiting = Waiting(120)
        while self.read_states()[name] != "RUNNING":
            assert not waiting.is_over, self.log()
            waiting.pause()

    def stop(self):
        """Send SIGTERM; return the exit status (137: the server had to be killed)."""
        docker(self.daemon, "stop", "--time", "120", self.name)
        return self.inspect("State.ExitCode")

    def inspect(self, field):
        words = ("inspect", "--format", f"{{{{.{field}}}}}", self.name)
        return docker(self.daemon, *words).stdout.decode().strip()

    def log(self):
        done = docker(self.daemon, "logs", self.name)
        return done.stdout.decode() + done.stderr.decode()

    def _exec(self, *words):
        return ("exec", self.name, *words)


@pytest.mark.parametrize(
    "flags",
    [(), ("--user", "0"), ("--user", "12345", *OWN_FOLDERS)],
    ids=["default user", "root", "any user"],
)
def test_a_throw_away_server_runs_jobs_as_the_containers_user(daemon, flags):
    serve = ("serve", "--run", "--project", "demo", "--", "python3", "-c", SUBMIT)
    done = docker(daemon, "run", "--rm", *ALONE, *flags, IMAGE, *serve, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    assert done.stdout.decode() == "JOB_STATE_SUCCEEDED\n", done.stderr.decode()[-3000:]


def test_the_image_is_the_command(daemon):
    done = docker(daemon, "run", "--rm", *ALONE, IMAGE, "--version")
    assert done.stdout.decode() == f"trainshed {trainshed.__version__}\n"


def test_the_server_of_the_image_runs_jobs_and_its_volume_survives_the_container(daemon, start):
    first = start()
    assert "other users' access" not in first.log()
    printed = first.submit("short", PRINT_USER, "--stream-logs")
    assert "runs as 10001" in printed, printed
    first.submit("long", SLEEP)
    first.wait_until_running("long")
    assert first.stop() == "0", first.log()
    assert "stopped; 1 job(s) keep running" in first.log()
    docker(daemon, "rm", first.name)

    second = start()
    second.wait_until_running("long")  # it ended with the first container and started again
    assert second.read_states() == {"short": "SUCCEEDED", "long": "RUNNING"}
    second.run("trainshed", "jobs", "cancel", "long", "--project", "demo")
    assert second.stop() == "0", second.log()


def test_the_python_of_the_image_can_be_lent_to_pods(daemon):
    words = ("run", "--rm", *ALONE, "--entrypoint", "python3", IMAGE, "-c", BUNDLE)
    done = docker(daemon, *words, check=False)
    assert done.stdout.decode().startswith("runtime-"), done.stderr.decode()[-3000:]


def test_the_server_needs_no_root_file_system_to_write_to(start):
    folders = ("/tmp", "/var/cache/trainshed:uid=10001,mode=0700")  # noqa: S108 - a container's
    writable = [word for folder in folders for word in ("--tmpfs", folder)]
    server = start("--read-only", *writable, "--cap-drop", "ALL")
    printed = server.submit("short", PRINT_USER, "--stream-logs")
    assert "runs as 10001" in printed, printed
    assert server.stop() == "0", server.log()
