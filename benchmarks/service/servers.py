"""Starts the servers of the service benchmark, and measures their time and memory."""

import contextlib
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ROOT, TRAINSHED, Json
from benchmarks.service.client import Client
from benchmarks.service.documents import BUCKET, PROJECT

READY_S_MAX = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that has answered its first request."""

    url: str
    token: str
    pid: int
    started_s: float
    """Seconds from the start of the process to its first answer."""

    def client(self) -> Client:
        """Open a new connection."""
        return Client(self.url, self.token)

    def cpu_s(self) -> float:
        """Return the processor time of the process in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Return the current resident memory of the process, in MB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024

    def states(self) -> dict[str, int]:
        """Return the number of jobs in each state; only a simulated server has this."""
        with self.client() as client:
            return dict(client.call("GET", "/simulated/jobs"))

    def explain_of(self, job: str) -> Json:
        """Return the server's explanation of a job's state."""
        with self.client() as client:
            return client.call("GET", f"/trainshed/v1/projects/{PROJECT}/jobs/{job}/explain")


@contextlib.contextmanager
def simulated(
    *,
    gpus: int,
    nodes: int = 1000,
    database: str | None = None,
    traces: str = "",
    source: Path | None = None,
) -> Iterator[Server]:
    """Start a server with simulated nodes, each with ``gpus`` GPUs.

    ``traces`` is the URL to which it sends traces; empty: it sends none.  ``source`` is the ``src``
    folder of another version to start instead, beside which are the benchmarks of that version.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        simulated_at(
            Path(folder), gpus=gpus, nodes=nodes, database=database, traces=traces, source=source
        ) as server,
    ):
        yield server


@contextlib.contextmanager
def simulated_at(  # noqa: PLR0913 - the options of the server
    folder: Path,
    *,
    gpus: int,
    nodes: int = 1000,
    database: str | None = None,
    traces: str = "",
    source: Path | None = None,
) -> Iterator[Server]:
    """Start a simulated server on an existing data directory, so that the caller can restart it."""
    flags = [
        "--gpus",
        str(gpus),
        "--nodes",
        str(nodes),
        *(["--database", database] if database else []),
        *(["--traces", traces] if traces else []),
    ]
    is_first = not (folder / "admin-token").exists()
    command = [sys.executable, "-m", "benchmarks.service.simulated_server", *flags]
    cwd = source.absolute().parent if source else ROOT
    with _running(command, folder, source, cwd) as server:
        if is_first:
            with server.client() as client:
                client.answer("POST", f"/storage/v1/b?project={PROJECT}", {"name": BUCKET})
        yield server


@contextlib.contextmanager
def local(
    folder: Path,
    *flags: str,
    descriptors: int | None = None,
    source: Path | None = None,
) -> Iterator[Server]:
    """Start the real server on this machine; ``descriptors`` is its limit of open files, if any.

    ``source`` is the ``src`` folder of another version of the server to start instead.
    """
    command = [TRAINSHED, "serve", "--port", "0", "--grpc-port", "0", *flags]
    if descriptors:
        command = ["/bin/sh", "-c", f'ulimit -n {descriptors}; exec "$0" "$@"', *command]
    with _running(command, folder, source) as server:
        yield server


@contextlib.contextmanager
def _running(
    command: Sequence[str], folder: Path, source: Path | None = None, cwd: Path = ROOT
) -> Iterator[Server]:
    (folder / "server.json").unlink(missing_ok=True)
    began = time.monotonic()
    with (folder / "serve.log").open("ab") as log:
        child = subprocess.Popen(
            [*command, "--data-dir", str(folder.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=cwd,
            env={**os.environ, **({"PYTHONPATH": str(source.absolute())} if source else {})},
        )
    try:
        url = _ready(child, folder, began + READY_S_MAX)
        yield Server(
            url=url,
            token=(folder / "admin-token").read_text().strip(),
            pid=child.pid,
            started_s=time.monotonic() - began,
        )
    finally:
        child.terminate()
        child.wait()


def _ready(child: subprocess.Popen[bytes], folder: Path, deadline: float) -> str:
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            url = str(json.loads((folder / "server.json").read_text())["url"])
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):  # noqa: S310  # our own
                return url
        time.sleep(0.01)
    raise SystemExit(f"the server did not start; its log:\n{(folder / 'serve.log').read_text()}")


def postgres_programs() -> Path | None:
    """Return the programs' folder of the newest PostgreSQL; None if none is installed."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return programs[-1].parent if programs else None


@contextlib.contextmanager
def postgres(programs: Path) -> Iterator[str]:
    """Start a PostgreSQL that syncs to disk as in production; yield its URL."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path has 107 bytes at most
    user = _other_user(folder)
    data = str(folder / "data")
    make = [str(programs / "initdb"), "-D", data, "-U", "postgres", "-A", "trust"]
    serve = [str(programs / "postgres"), "-D", data, "-k", str(folder), "-c", "listen_addresses="]
    try:
        subprocess.run(
            [*user, *make, "--encoding=UTF8", "--locale=C.UTF-8"],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        with (folder / "log").open("wb") as log:
            child = subprocess.Popen([*user, *serve], stdout=log, stderr=log, cwd=folder)
        try:
            _accepting(programs, folder, time.monotonic() + READY_S_MAX)
            yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
        finally:
            child.terminate()
            child.wait()
    finally:
        shutil.rmtree(folder)


def _accepting(programs: Path, folder: Path, deadline: float) -> None:
    command = [str(programs / "pg_isready"), "-q", "-h", str(folder)]
    while subprocess.run(command, check=False).returncode:
        if time.monotonic() > deadline:
            raise SystemExit(f"PostgreSQL did not start; its log:\n{(folder / 'log').read_text()}")
        time.sleep(0.05)


def _other_user(folder: Path) -> list[str]:
    """Return a prefix for commands of PostgreSQL, which refuses to run as root.

    The prefix changes the user; it is empty for a user other than root.
    """
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
