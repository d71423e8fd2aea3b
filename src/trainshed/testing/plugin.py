"""The pytest plugin: fixtures that give a test a Trainshed server, under Google's names.

pytest imports this module in every run of an environment that has Trainshed.  So the module imports
the code of the fixtures only when a test first uses a fixture.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trainshed.testing.servers import ServerPool, TestServer


@pytest.fixture(scope="session")
def _trainshed_pool() -> "Iterator[ServerPool]":
    from trainshed.testing.servers import ServerPool  # noqa: PLC0415 - only tests that use a fixture need it

    with ServerPool() as pool:
        yield pool


@pytest.fixture(scope="session")
def trainshed_session_server(_trainshed_pool: "ServerPool") -> "Iterator[TestServer]":
    """Provide one server for all tests of a session; Google's host names lead to it."""
    with _trainshed_pool.lend() as server:
        yield server


@pytest.fixture
def trainshed_server(
    request: pytest.FixtureRequest, _trainshed_pool: "ServerPool"
) -> "Iterator[TestServer]":
    """Provide a server that no other test has used; Google's host names lead to it."""
    with _trainshed_pool.lend(prepare_next=_is_used_after(request)) as server:
        yield server


def _is_used_after(request: pytest.FixtureRequest) -> bool:
    """Whether a later test has the fixture of this request."""
    items = request.session.items
    later = items[items.index(request.node) + 1 :]
    return any(request.fixturename in getattr(item, "fixturenames", ()) for item in later)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the ends of failed jobs' logs to the report of a test that failed."""
    report = yield
    if call.when == "call" and report.failed:
        fixtures = getattr(item, "funcargs", {})
        for name in ("trainshed_server", "trainshed_session_server"):
            if name in fixtures and (text := fixtures[name].failed_jobs_text()):
                report.sections.append(("Trainshed jobs that failed", text))
    return report
