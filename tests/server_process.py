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
#: A long deadline costs time only if a test fails; a busy machine may need long.
READY_S_MAX = 180
END_S_MAX = 120
#: The final states.
OVER = ("SUCCEEDED", "FAILED", "CANCELLED")
#: The isolation mode instead of the machine's: TRAINSHED_TEST_ISOLATION=landlock make test.
ISOLATION = os.environ.get("TRAINSHED_TEST_ISOLATION", "")
#: The modules of a server and the doctor, with the ones that they import later.
SERVER_MODULES = (
    *(
        "trainshed.cli.main",
        "trainshed.cli.admin.server",
        "trainshed.store",
        "trainshed.api.native.app",
    ),
    *("trainshed.engines.local.factory", "trainshed.api.metrics"),
    *("trainshed.tuning.advance", "trainshed.service.auth.signed_tokens"),
    *("alembic.context", "alembic.command", "uvloop"),
    *("cryptography.hazmat.backends.openssl.backend", "grpc._server", "pydantic.dataclasses"),
    *("uvicorn.lifespan.off", "uvicorn.loops.auto", "uvicorn.protocols.http.auto"),
    *("trainshed.workbench.doctor.examine", "parsed_catalogs"),
)
_FORKS = ForkServer(*SERVER_MODULES, OPENBLAS_NUM_THREADS="1")


def finished(argv, *, env=None, timeout_s=END_S_MAX):
    """Run a trainshed command in a fork; return the result of ``subprocess.run``."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("output", "errors")]
        output, errors = files
        process = _FORKS.start(
            argv, env={**os.environ, **(env or {})}, output=output, errors=errors
        )
        code = process.wait(timeout_s)
        return subprocess.CompletedProcess(argv, code, *(file.read_text() for file in files))


class Waiting:
    """Polls often at first and then less, so that a long wait does not keep the machine busy."""

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
    """A server process; a second one may be started on the same data directory."""

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
        """Switch off parts of the start that are slow or depend on the machine."""
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
        """Use no container runtime: its clients take longer to start than a server."""
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
        """Whether the server can be a fork; others have another user or release."""
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
        """Whether the server reports itself healthy; raises OSError if it does not answer."""
        with self.opened(f"{self.url}/healthz", timeout_s) as answer:
            return answer.status == 200

    def opened(self, request, timeout_s=60):
        """Open a request with urllib."""
        return urllib.request.urlopen(request, timeout=timeout_s, context=self._trusting)

    def connection(self):
        """Return a connection for many requests."""
        place = urlsplit(self.url).netloc
        if self._trusting is None:
            return http.client.HTTPConnection(place, timeout=60)
        return http.client.HTTPSConnection(place, timeout=60, context=self._trusting)

    @property
    def _trusting(self):
        """Return a TLS context that trusts only the server's own authority."""
        if self.url.startswith("http:"):
            return None
        return ssl.create_default_context(cafile=self.data_dir / "tls" / "ca.pem")

    @property
    def certificates(self):
        """Return the CA variables of ``trainshed env``."""
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
        """Return the bytes of a request."""
        return None if document is None else json.dumps(document).encode()

    def headers(self, token=None):
        """Return the headers of a request, with the administrator's token or another."""
        return {
            "Authorization": f"Bearer {token or self.token}",
            "Content-Type": "application/json",
        }

    def call(self, verb, path, document=None, *, token=None, headers=None):
        """Send a request; return the status and the JSON of the response."""
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
        """Return the messages of a job's whole log, by the job's full name."""
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
        """Kill it with SIGKILL, without a shutdown."""
        self._end(signal.SIGKILL)

    def stop(self):
        """Stop it with SIGTERM, like a service manager."""
        self._end(signal.SIGTERM)

    def _end(self, signum):
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signum)
        self.status = self._process.wait(timeout=END_S_MAX)
        self._process = None
        self.log.close()
