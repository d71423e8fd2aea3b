"""The browser, servers and signed-in visitors of the console's tests."""

from pathlib import Path

import pytest

from console.browser import Visitor, chromium_or_skip
from e2e.support import PROJECT, good, prepared, serving
from warden.pods import free_port

SIMULATED = (str(Path(__file__).with_name("simulated_server.py")),)


@pytest.fixture(scope="module")
def chromium():
    """One browser for the tests of a file; Playwright's loop would stop asyncio in others."""
    with chromium_or_skip() as browser:
        yield browser


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A server with simulated nodes."""
    with serving(tmp_path_factory.mktemp("simulated") / "data", program=SIMULATED) as server:
        yield server


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A server that runs the programs of jobs on this machine."""
    with serving(tmp_path_factory.mktemp("local") / "data") as server:
        yield server


@pytest.fixture
def killable(tmp_path):
    """A server with simulated nodes that a test kills and starts again at the same address."""
    server = prepared(tmp_path / "data", "--port", str(free_port()), "--grpc-port", "none")
    server.program = SIMULATED
    yield server.start()
    server.stop()


@pytest.fixture
def visit(chromium):
    """``visit(server)`` gives a visitor with the administrator's token, ``token=None`` one without.

    After the test none of them has a fault.
    """
    visitors = []

    def begin(server, *, token="", **options):
        visitor = Visitor(chromium, server.url, **options)
        visitors.append(visitor)
        return visitor if token is None else visitor.sign_in(token or server.token)

    yield begin
    try:
        for visitor in visitors:
            visitor.check()
    finally:
        for visitor in visitors:
            visitor.close()


@pytest.fixture
def token(simulated):
    """``token(role)`` makes a token of one project on the simulated server; gives its text."""

    def make(role, project=PROJECT):
        document = {"name": role, "role": role, "project": project}
        return good(simulated.call("POST", "/trainshed/v1/tokens", document))["token"]

    return make
