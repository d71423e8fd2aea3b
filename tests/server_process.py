"""A real ``trainshed serve`` for tests: its own process, data directory and free ports."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from databases import empty_database
from forked import ForkServer
from trainshed.workbench.client_settings import ClientTarget, certificate_variables

TRAINSHED = Path(sys.executable).parent / "trainshed"
#: Deadlines cost time only where something is broken: a busy machine may need long.
READY_S_MAX = 180
END_S_MAX = 120
#: The states after which nothing else comes.
OVER = ("SUCCEEDED", "FAILED", "CANCELLED")
#: In place of the mode that the machine gives: TRAINSHED_TEST_ISOLATION=landlock make test.
ISOLATION = os.environ.get("TRAINSHED_TEST_ISOLATION", "")
#: With what a server and the doctor import when they first need it.
_FORKS = ForkServer(
    *(
        "trainshed.cli.main",
        "trainshed.cli.admin.server",
        "trainshed.store",
        "trainshed.api.native",
    ),
    *("trainshed.engines.local.factory", "trainshed.service.nodes.metrics"),
    *("trainshed.tuning.advance", "trainshed.service.auth.signing_keys"),
    *("alembic.context", "alembic.command", "uvloop"),
    *("cryptography.hazmat.backends.openssl.backend", "grpc._server", "pydantic.dataclasses"),
    *("uvicorn.lifespan.off", "uvicorn.loops.auto", "uvicorn.protocols.http.auto"),
    *("trainshed.workbench.doctor.examine", "parsed_catalogs"),
    OPENBLAS_NUM_THREADS="1",
)


def finished(argv, *, env=None, timeout_s=END_S_MAX):
    """Run a command of ours without its imports; what ``subprocess.run`` returns of it."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("output", "errors")]
        output, errors = files
        process = _FORKS.start(
            argv, env={**os.environ, **(env or {})}, output=output, errors=errors
        )
        code = process.wait(timeout_s)
        return subprocess.CompletedProcess(argv, code, *(file.read_text() for file in files))


class Waiting:
    """Looks often at first and then less: who waits long does not keep the machine busy."""

    def __init__(self, timeout_s):
        self._began = time.monotonic()
        self._timeout_s = timeout_s

    @property
    def is_over(self):
        return time.monotonic() - self._began > self._timeout_s

    def pause(self):
        waited_s = time.monotonic() - self._began
        time.sleep(min(0.25, max(0.03, waited_s / 10)))


class ServerProcess:
    """Start it, talk to it, kill it; a second one may be started on the same data directory."""

    program = (TRAINSHED,)
    """A command, or a Python file and words, which is forked."""
    forks = _FORKS
    status = None
    """How it ended the last time."""

    def __init__(self, data_dir, *flags, environ=None):
        self.data_dir = Path(data_dir)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._flags = flags
        self._environ = {**os.environ, **(environ or {})}
        self._process = None

    def start(self):
        (self.data_dir / "server.json").unlink(missing_ok=True)
        self._prepare()
        self.log = (self.data_dir / "serve.log").open("a+b")
        words = ("serve", "--port", "0", "--data-dir", self.data_dir)
        self._process = self._begun([*self.program, *words, *self._flags])
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def _prepare(self):
        """Spare each start what takes as long as the rest of it, and what the machine decides."""
        file = self.data_dir / "config.toml"
        text = file.read_text() if file.exists() else ""
        settings = self._isolated(self._without_runtime(text))
        if settings != text:
            file.write_text(settings)
        database = self.data_dir / "trainshed.db"
        if self._is_fork and "--database" not in self._flags and not database.exists():
            database.write_bytes(empty_database())
            database.chmod(0o600)

    def _without_runtime(self, settings):
        """No container runtime, whatever the machine has: its clients take longer than a server."""
        if "DOCKER_HOST" in self._environ or "container" in settings:
            return settings
        none = 'container_runtime = "none"\n'
        if "[fleet]\n" in settings:
            return settings.replace("[fleet]\n", f"[fleet]\n{none}")
        return f"{settings}\n[fleet]\n{none}"

    def _isolated(self, settings):
        if not ISOLATION or "[isolation]" in settings:
            return settings
        return f'{settings}\n[isolation]\nmode = "{ISOLATION}"\nallow_root_jobs = true\n'

    @property
    def _is_fork(self):
        """Others may be of another user, or of another release."""
        return self.program == (TRAINSHED,) or str(self.program[0]).endswith(".py")

    def _begun(self, argv):
        if self._is_fork:
            return self.forks.start(argv, env=self._environ, output=self.log.name)
        return subprocess.Popen(
            argv,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )

    def _wait_until_ready(self):
        waiting = Waiting(READY_S_MAX)
        while not self._is_ready():
            assert self._process.poll() is None, self.output()
            assert not waiting.is_over, self.output()
            waiting.pause()

    def _is_ready(self):
        try:
            self.address = json.loads((self.data_dir / "server.json").read_text())
            return self.is_healthy(timeout_s=5)
        except (OSError, ValueError, KeyError):
            return False

    def is_healthy(self, timeout_s=60):
        """Whether it says so; raises OSError where it says nothing."""
        with self.opened(f"{self.url}/healthz", timeout_s) as answer:
            return answer.status == 200

    def opened(self, request, timeout_s=60):
        """What urllib opens."""
        return urllib.request.urlopen(request, timeout=timeout_s, context=self._trusting)

    def connection(self):
        """A connection that many requests may go over."""
        place = urlsplit(self.url).netloc
        if self._trusting is None:
            return http.client.HTTPConnection(place, timeout=60)
        return http.client.HTTPSConnection(place, timeout=60, context=self._trusting)

    @property
    def _trusting(self):
        """Over TLS the server's own authority is trusted, and no other."""
        if self.url.startswith("http:"):
            return None
        return ssl.create_default_context(cafile=self.data_dir / "tls" / "ca.pem")

    @property
    def certificates(self):
        """What ``trainshed env`` tells clients about whom to trust."""
        target = ClientTarget(
            url=self.url, grpc=self.grpc, bundle=self.address["ca"], project="p", region="r"
        )
        return certificate_variables(target)

    @property
    def url(self):
        return self.address["url"]

    @property
    def grpc(self):
        return self.address["grpc"]

    @property
    def pid(self):
        return self._process.pid

    @property
    def has_ended(self):
        return self._process is None or self._process.poll() is not None

    @property
    def token(self):
        return (self.data_dir / "admin-token").read_text().strip()

    def output(self):
        return (self.data_dir / "serve.log").read_text(errors="replace")

    def body(self, document):
        """The bytes of a request."""
        return None if document is None else json.dumps(document).encode()

    def headers(self, token=None):
        """Those of a request, with the administrator's token or another."""
        return {
            "Authorization": f"Bearer {token or self.token}",
            "Content-Type": "application/json",
        }

    def call(self, verb, path, document=None, *, token=None, headers=None):
        """One request; the status and the JSON of the answer."""
        request = urllib.request.Request(
            self.url + path,
            method=verb,
            data=self.body(document),
            headers=self.headers(token) | (headers or {}),
        )
        try:
            with self.opened(request) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"{}")

    def log_of(self, name):
        """The messages of a job's whole log, by the job's full name."""
        project, job = name.split("/")[1], name.rpartition("/")[2]
        request = urllib.request.Request(
            f"{self.url}/trainshed/v1/projects/{project}/jobs/{job}/logs",
            headers={"Authorization": f"Bearer {self.token}"},
        )
        with self.opened(request) as answer:
            return "\n".join(json.loads(line)["message"] for line in answer)

    def wait_for(self, path, states, *, timeout_s=180):
        """Poll a resource until it is in one of the states."""
        waiting = Waiting(timeout_s)
        while True:
            status, document = self.call("GET", path)
            assert status == 200, document
            if document.get("state") in states:
                return document
            is_over = str(document.get("state")).removeprefix("JOB_STATE_") in OVER
            assert not is_over, f"{document}\n{self.output()[-3000:]}"
            assert not waiting.is_over, f"{document}\n{self.output()[-3000:]}"
            waiting.pause()

    def kill(self):
        """SIGKILL: the server has no last word."""
        self._end(signal.SIGKILL)

    def stop(self):
        """SIGTERM, as a service manager stops it."""
        self._end(signal.SIGTERM)

    def _end(self, signum):
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signum)
        self.status = self._process.wait(timeout=END_S_MAX)
        self._process = None
        self.log.close()
