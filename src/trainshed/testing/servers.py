"""Throw-away servers for tests, and a proxy that redirects this process to them.

A process has one proxy and one certificate authority, because gRPC reads the file of authorities
once.  The server of the next test starts while the present test runs.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Self

from trainshed.client.faults import ServerRefusal, Unreachable
from trainshed.proxy.failed_jobs import FailedJobs
from trainshed.proxy.session import Session, open_session
from trainshed.proxy.throw_away import ThrowAwayServer, start_server
from trainshed.workbench.client_settings import ClientTarget, staging_bucket

_PROJECT_VARIABLES: Final = ("CLOUDSDK_CORE_PROJECT", "TRAINSHED_PROJECT")
_PROJECT: Final = "demo"
_REGION: Final = "us-central1"


class TestServer:
    """The addresses and credentials of a running server, for a test."""

    __test__ = False  # pytest would collect a class of this name as tests

    def __init__(self, running: ThrowAwayServer, target: ClientTarget) -> None:
        """Create the staging bucket of the project on the running server."""
        self.project = target.project
        self.region = target.region
        self.url = running.url
        self.grpc = running.grpc
        self.token = running.token
        self.data_dir = running.data_dir
        bucket = staging_bucket(target)
        self.staging_bucket = f"gs://{bucket}"
        self.server = running.server
        """A client with the administrator's token, without the proxy."""
        self._failed = FailedJobs(running.server)
        running.make_bucket(bucket, target.project)

    def failed_jobs_text(self) -> str:
        """Return the ends of the logs of jobs that have failed since the last call."""
        with contextlib.suppress(ServerRefusal, Unreachable):
            return "\n".join(self._failed.reports())
        return ""


class ServerPool:
    """The servers that tests of one process use, one after another."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(4, "trainshed servers")
        self._open = contextlib.ExitStack()
        self._session: Session | None = None
        self._key: dict[str, object] | None = None
        self._next: Future[ThrowAwayServer] | None = None
        self._environ = dict(os.environ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the proxy and every server."""
        if self._next:
            self._next.result().stop()
        self._threads.shutdown()
        self._open.close()

    @contextlib.contextmanager
    def lend(self, *, prepare_next: bool = False) -> Iterator[TestServer]:
        """Redirect Google's host names in this process to a new server, until the context ends.

        ``prepare_next`` starts the server for the next test meanwhile.
        """
        running = self._take()
        target = self._target(running)
        session = self._open_session(running, target)
        upstream = session.proxy.upstream
        try:
            with _set_variables(
                {**session.redirect_to(target, running.server), **running.own_variables}
            ):
                if prepare_next:
                    self._next = self._threads.submit(self._start)
                yield TestServer(running, target)
        finally:
            session.proxy.upstream = upstream
            self._threads.submit(running.stop)

    def _take(self) -> ThrowAwayServer:
        following, self._next = self._next, None
        return following.result() if following else self._start()

    def _start(self) -> ThrowAwayServer:
        return start_server((), self._key, self._environ)

    def _open_session(self, running: ThrowAwayServer, target: ClientTarget) -> Session:
        if self._session is None:
            self._key = running.key
            opening = open_session(target, running.server, environ=self._environ, key=running.key)
            self._session = self._open.enter_context(opening)
        return self._session

    def _target(self, running: ThrowAwayServer) -> ClientTarget:
        projects = map(self._environ.get, _PROJECT_VARIABLES)
        return running.target(next(filter(None, projects), _PROJECT), _REGION)


@contextlib.contextmanager
def _set_variables(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables of this process; those that are None are unset."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
