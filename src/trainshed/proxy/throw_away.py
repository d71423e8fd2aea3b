"""Runs a server as a child, with a temporary folder that is removed at the end, and free ports."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.http import Server
from trainshed.model.faults import EngineFault
from trainshed.proxy.failed_jobs import FailedJobs
from trainshed.storage.buckets import SCHEME
from trainshed.workbench.client_settings import ClientTarget

if TYPE_CHECKING:
    from trainshed.proxy.session import Session

_END_S: Final = 60.0
_REPORT_S: Final = 1.0
_SERVE: Final = ("-m", "trainshed.cli.main", "serve", "--throw-away")
_VARIABLES_OF_CALLER: Final = ("TRAINSHED_DATA_DIR", "TRAINSHED_URL", "TRAINSHED_TOKEN")


class ThrowAwayServer:
    """A running server; ``start_server`` makes it."""

    def __init__(
        self, process: "subprocess.Popen[str]", address: Mapping[str, Any], key: Json
    ) -> None:
        """``address`` is the document that the ready server printed; ``key`` a registered key."""
        self._process = process
        self.key = key
        self.url: str = address["url"]
        self.grpc: str | None = address["grpc"]
        self.data_dir = Path(address["dataDir"])
        self.ca = str(self.data_dir / "tls" / "ca-bundle.pem")
        self.token_file = self.data_dir / "admin-token"
        self.token = self.token_file.read_text().strip()

    @property
    def server(self) -> Server:
        """Return a client of the server, with the administrator's token."""
        return Server(url=self.url, token=self.token, ca=self.ca)

    @property
    def own_variables(self) -> Mapping[str, str | None]:
        """Return the variables that point ``trainshed`` at the server; None to unset one."""
        return {**dict.fromkeys(_VARIABLES_OF_CALLER), "TRAINSHED_DATA_DIR": str(self.data_dir)}

    def make_bucket(self, name: str, project: str) -> None:
        """Make a bucket, named with or without gs://.  Raises ServerRefusal."""
        plain = name.removeprefix(SCHEME).rstrip("/")
        self.server.call("POST", "/storage/v1/b", {"name": plain}, {"project": project})

    def target(self, project: str, region: str) -> ClientTarget:
        """Return the settings with which clients reach the server."""
        return ClientTarget(
            url=self.url,
            grpc=self.grpc,
            bundle=self.ca,
            project=project,
            region=region,
            token_file=self.token_file,
        )

    @contextlib.contextmanager
    def session(
        self, target: ClientTarget, *, offline: bool = False, environ: Mapping[str, str]
    ) -> "Iterator[Session]":
        """Redirect Google's names to the server (``open_session``)."""
        from trainshed.proxy.session import open_session  # noqa: PLC0415 - imported already

        with open_session(
            target, self.server, offline=offline, environ=environ, key=self.key
        ) as session:
            yield session

    @contextlib.contextmanager
    def reported_failures(self, write: Callable[[str], object]) -> Iterator[None]:
        """Write the last lines of each failed job soon after its end."""
        failed, ended = FailedJobs(self.server), threading.Event()

        def report() -> None:
            with contextlib.suppress(ServerRefusal, Unreachable):
                for text in failed.reports():
                    write(text)

        def follow() -> None:
            while not ended.wait(_REPORT_S):
                report()

        thread = threading.Thread(target=follow, name="failed jobs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            report()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server and its jobs, and remove its folder."""
        _end(self._process)


def start_server(
    flags: Sequence[str] = (), key: Json | None = None, environ: Mapping[str, str] = os.environ
) -> ThrowAwayServer:
    """Start a throw-away server with these flags of ``trainshed serve`` and these variables.

    The service account of the key file ``key`` may call the server; None: a new key is made.
    Raises EngineFault, with the server's output, if the server does not start.
    """
    with tempfile.TemporaryFile("w+") as log:
        process = _begin(flags, environ, log)
        try:
            return ThrowAwayServer(process, *_exchange_key(process, log, key))
        except BaseException:
            _end(process)
            raise


def _end(process: "subprocess.Popen[str]") -> None:
    """Close the server's input: the server then ends its jobs and removes its folder."""
    if process.stdin:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()


def _begin(
    flags: Sequence[str], environ: Mapping[str, str], log: IO[str]
) -> "subprocess.Popen[str]":
    env = {name: text for name, text in environ.items() if name not in _VARIABLES_OF_CALLER}
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, *_SERVE, *flags],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,  # Ctrl-C is for the command
    )


def _exchange_key(
    process: "subprocess.Popen[str]", log: IO[str], key: Json | None
) -> tuple[Mapping[str, Any], Json]:
    """Register the public half of a key; return the server's address and the key."""
    credentials = import_module("trainshed.proxy.credentials")  # while the server starts
    import_module("trainshed.proxy.session")  # for later
    key = key or credentials.new_key()
    if process.stdin is None:
        raise AssertionError("the server reads a key from its input")
    with contextlib.suppress(BrokenPipeError):  # the process has ended; its log has the reason
        process.stdin.write(json.dumps(credentials.public_half(key)) + "\n")
        process.stdin.flush()
    return _address_of(process, log), key


def _address_of(process: "subprocess.Popen[str]", log: IO[str]) -> Mapping[str, Any]:
    """Read the document that the server prints when it is ready.  Raises EngineFault."""
    text = ""
    for line in process.stdout or ():
        text += line
        if line.startswith("}"):
            address: Mapping[str, Any] = json.loads(text)
            return address
    process.wait()
    log.seek(0)
    raise EngineFault(f"the throw-away server did not start: {log.read().strip()[-2000:]}")
