"""The browser, servers and signed-in visitors of the console's tests."""

from pathlib import Path

import pytest

from console.browser import Visitor, chromium_or_skip
from controller.world import nodes
from e2e.failpoints import FailingServer
from e2e.remote_engine import EngineHost
from e2e.support import FINAL, PROJECT, end_all, good, prepared, serving
from trainshed.engines.base import PlacedBy
from trainshed.model.explanation import Explanation, Reason
from trainshed.testing.fake_engine import FakeEngine, Script
from warden.pods import free_port

#: Why a job waits in the queue of an engine.
QUEUE_REASON = Explanation(
    reason=Reason.ENGINE_QUEUE, message="Jobs with a higher priority are before it.", position=7
)
SIMULATED = (str(Path(__file__).with_name("simulated_server.py")),)


@pytest.fixture(scope="package")
def chromium():
    """One browser for the tests of this folder; Playwright's loop would stop asyncio in others."""
    with chromium_or_skip() as browser:
        yield browser


@pytest.fixture(scope="package")
def simulated_server(tmp_path_factory):
    """One server for the tests of this folder."""
    with serving(tmp_path_factory.mktemp("simulated") / "data", program=SIMULATED) as server:
        yield server


@pytest.fixture(scope="module")
def simulated(simulated_server):
    """A server with simulated nodes, on which no job is open before the tests of a file."""
    yield simulated_server
    while names := open_jobs(simulated_server):
        for name in names:
            simulated_server.call("POST", f"/v1/{name}:cancel", {})
            simulated_server.wait_for(f"/v1/{name}", FINAL)


def open_jobs(server):
    """Return the names of all jobs that have not ended."""
    query = "open=true&kind=CUSTOM_JOB&kind=TUNING_JOB"
    rows = good(server.call("GET", f"/trainshed/v1/projects/-/jobs?{query}"))["jobs"]
    return [row["name"] for row in rows]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A server that runs the programs of jobs on this machine, which has six GPUs for them."""
    flags = ("--fleet-policy", "best-effort", "--fake-gpus", "6")
    with serving(tmp_path_factory.mktemp("local") / "data", *flags) as server:
        yield server


@pytest.fixture(params=["simulated", pytest.param("local", marks=pytest.mark.full)])
def engine_name(request):
    """The engine of ``server``: simulated nodes, and at full length also this machine."""
    return request.param


@pytest.fixture
def server(request, engine_name):
    """A server of each engine."""
    return request.getfixturevalue(engine_name)


@pytest.fixture
def killable(tmp_path):
    """A server with simulated nodes that a test kills and starts again at the same address."""
    server = prepared(tmp_path / "data", "--port", str(free_port()), "--grpc-port", "none")
    server.program = SIMULATED
    yield server.start()
    server.stop()


@pytest.fixture
def queueing(tmp_path):
    """(server, engine) whose engine has a queue of its own, like a cluster, and starts nothing."""
    script = Script(runs_s=None, waits=QUEUE_REASON)
    engine = FakeEngine(nodes(2), script=lambda _key, _plan: script, places=PlacedBy.ENGINE)
    engine.is_busy = True
    with EngineHost(tmp_path / "engine", engine):
        server = FailingServer(tmp_path / "data", engine=tmp_path / "engine", places="ENGINE")
        try:
            server.arm(None)
            assert server.begin()
            yield server, engine
        finally:
            end_all(server)


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
