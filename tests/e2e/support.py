"""What the end-to-end tests share: servers that leave nothing behind, jobs, and patient waiting."""

import contextlib
import json
import sys
import urllib.request

import psutil

from server_process import ServerProcess, Waiting
from trainshed.engines.supervise.record.spec import FORK_SERVER

PROJECT = "demo-proj"
PARENT = f"projects/{PROJECT}/locations/us-central1"
IMAGE = "registry.test/p/img:1"
FINAL = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}

#: Any image of the tests runs in the Python that runs the tests.
CONFIG = f"""\
[[environment]]
name = "tests"
python = "{sys.executable}"

[[image]]
image = "registry.test/*"
environment = "tests"
"""


#: For modules whose jobs and tests tell each other by files of the machine: they say
#: ``JOBS_TELL_BY_FILES``, and conftest.py has them served without walls.
WITHOUT_WALLS = """\
[isolation]
mode = "none"
allow_root_jobs = true

"""
WALLS = {"settings": ""}


#: No job of a test asks at Google for what is public there.
NO_PUBLIC = '[gateway]\npublic = "refuse"\n'


def settings(config="", images=CONFIG):
    """The text of a server's file."""
    return config + "\n" + WALLS["settings"] + images


@contextlib.contextmanager
def serving(folder, *flags, config="", program=None, images=CONFIG):
    """A started server; at the end its log is clean, and of its jobs no process lives.

    ``program`` is started in the place of ``trainshed``.
    """
    server = prepared(folder, *flags, config=config, images=images)
    server.program = program or server.program
    try:
        yield server.start()
        server.stop()
        check_the_end(server)
    finally:
        end_all(server)


def prepared(folder, *flags, config="", images=CONFIG):
    """A server that was not started yet; all that it starts has its folder in the environment."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(settings(config, images))
    flags = ("--fleet-policy", "emulate", *flags)
    return ServerProcess(folder, *flags, environ={"TRAINSHED_CACHE_DIR": str(folder / "cache")})


def end_all(server):
    """Kill what a failed test has left."""
    server.kill()
    for pid, _ in processes_of(server):
        with contextlib.suppress(psutil.Error):
            psutil.Process(pid).kill()


def metrics_of(server):
    """The samples of a server's page of metrics, by their names with labels."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with server.opened(urllib.request.Request(f"{server.url}/metrics", headers=headers)) as answer:
        lines = answer.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def check_the_end(server):
    """No traceback in the log, and no process left that the server or its jobs started."""
    check_log(server)
    wait_until(lambda: not processes_of(server), lambda: f"left behind: {processes_of(server)}")


def check_log(server):
    """What nobody foresaw is written with a traceback, and each is a bug."""
    words = server.output()
    assert "Traceback" not in words, words[-6000:]
    assert "incident" not in words, words[-6000:]
    assert server.token not in words, "the log has the administrator's token"


def processes_of(server):
    """All processes that were started below the server's folder, whatever session they are in.

    But for its fork server, which is no job's; once the server has ended that must be gone too.
    """
    mark, jobs = str(server.data_dir / "cache"), f"{server.data_dir / 'jobs'}/"
    own = None if server.has_ended else server.pid  # it is forked: /proc has other variables
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            is_zombie = process.status() == psutil.STATUS_ZOMBIE
            env = process.environ()  # of a job's programs it has nothing of the server's
            is_ours = env.get("TRAINSHED_CACHE_DIR") == mark
            is_below = is_ours or env.get("TRAINSHED_NOTICE_FILE", "").startswith(jobs)
            if not is_zombie and (is_below or process.pid == own):
                processes.append((process.pid, process.cmdline()))
    # one that has ended meanwhile has no words
    return [
        (pid, words) for pid, words in processes if words and (own is None or not _forks(words))
    ]


def _forks(words):
    return words[-1].strip() == FORK_SERVER


def wait_until(is_so, why=lambda: "", *, timeout_s=120):
    """Poll until something is so; ``why`` tells what is wrong where it never is."""
    waiting = Waiting(timeout_s)
    while not (outcome := is_so()):
        assert not waiting.is_over, why()
        waiting.pause()
    return outcome


def ml_job(job_id, code="print('trained')", *, gpus=0, **training):
    """A job of AI Platform that runs a line of Python."""
    master = {"imageUri": IMAGE, "containerCommand": ["python", "-c"], "containerArgs": [code]}
    if gpus:
        master["acceleratorConfig"] = {"count": str(gpus), "type": "NVIDIA_TESLA_T4"}
    training_input = {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-16",
        "masterConfig": master,
        **training,
    }
    return {"jobId": job_id, "trainingInput": training_input}


def custom_job(name, code="print('trained')", *, gpus=0, workers=0):
    """The same for Vertex, maybe with a pool of workers that run the same line."""
    machine = {"machineType": "n1-standard-16"}
    if gpus:
        machine |= {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": gpus}
    container = {"imageUri": IMAGE, "command": ["python", "-c"], "args": [code]}
    pools = [
        {"machineSpec": machine, "replicaCount": str(count), "containerSpec": container}
        for count in (1, workers)
        if count
    ]
    return {"displayName": name, "jobSpec": {"workerPoolSpecs": pools}}


def good(answer):
    """The JSON of an answer that is one."""
    status, document = answer
    assert status == 200, document
    return document


def submit(server, document, project=PROJECT):
    """Submit a job of either dialect; its full name."""
    if "jobId" in document:
        good(server.call("POST", f"/v1/projects/{project}/jobs", document))
        return f"projects/{project}/jobs/{document['jobId']}"
    path = f"/v1/projects/{project}/locations/us-central1/customJobs"
    return good(server.call("POST", path, document))["name"]


def native(server, name, path=""):
    """What the native API says about a job of a full name."""
    project, job = name.split("/")[1], name.rpartition("/")[2]
    return good(server.call("GET", f"/trainshed/v1/projects/{project}/jobs/{job}{path}"))


def log_lines(server, name, **query):
    """A job's log over the native stream, as JSON objects."""
    project, job = name.split("/")[1], name.rpartition("/")[2]
    words = "&".join(f"{key}={value}" for key, value in query.items())
    request = urllib.request.Request(
        f"{server.url}/trainshed/v1/projects/{project}/jobs/{job}/logs?{words}",
        headers={"Authorization": f"Bearer {server.token}"},
    )
    with server.opened(request) as answer:
        return [json.loads(line) for line in answer]


def all_pages(server, path, key):
    """Every element of a list, page by page."""
    elements, token = [], ""
    while True:
        page = good(server.call("GET", f"{path}{'&' if '?' in path else '?'}pageToken={token}"))
        elements += page.get(key, [])
        token = page.get("nextPageToken", "")
        if not token:
            return elements


class KeepAlive:
    """One connection that many requests go over, as clients keep it."""

    def __init__(self, server):
        self._server = server
        self._connection = None

    def call(self, verb, path, document=None, headers=None):
        """One request.  Raises OSError or HTTPException where the server is not there."""
        if self._connection is None:
            self._connection = self._server.connection()
        try:
            self._connection.request(
                verb,
                path,
                json.dumps(document),
                {"Authorization": f"Bearer {self._server.token}", **(headers or {})},
            )
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read())
        except BaseException:
            self.close()
            raise

    def close(self):
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
