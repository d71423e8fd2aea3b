"""J13: many tabs, many streams, and a server that starts again."""

import http.client
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from console.browser import wait_on_page
from console.documents import simulated_job
from e2e.support import submit
from trainshed.api.change_streams import OWNER_STREAMS_MAX, STREAMS_MAX

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

TABS = 8


def test_eight_tabs_all_answer(simulated, visit):
    """A browser opens six connections to a server: streams must not use all of them."""
    name = submit(simulated, simulated_job("in-every-tab", gpus=0))
    visitor = visit(simulated)
    tabs = [visitor.open() for _ in range(TABS)]
    for page in tabs:
        expect(page.get_by_role("link", name="in-every-tab")).to_be_visible()
    last = visitor.open("/console/nodes")
    expect(last.get_by_text("4 nodes")).to_be_visible()
    simulated.call("POST", f"/v1/{name}:cancel", {})
    for page in tabs:
        expect(page.get_by_role("link", name="in-every-tab")).to_have_count(0)


@contextmanager
def open_stream(server, token):
    """A stream that a program holds; gives its status."""
    place = urlsplit(server.url).netloc
    connection = http.client.HTTPConnection(place, timeout=60)
    headers = {"Authorization": f"Bearer {token}"}
    connection.request("GET", "/trainshed/v1/stream?topic=nodes", headers=headers)
    try:
        yield connection.getresponse().status
    finally:
        connection.close()


def test_a_page_without_a_stream_asks_every_few_seconds(simulated, visit, token):
    with ExitStack() as streams:
        tokens = [token("viewer") for _ in range(STREAMS_MAX // OWNER_STREAMS_MAX)]
        opened = [open_stream(simulated, one) for one in tokens * OWNER_STREAMS_MAX]
        statuses = [streams.enter_context(stream) for stream in opened]
        assert set(statuses) == {200}
        visitor = visit(simulated)
        visitor.forgive("^answer: 503 GET .*/trainshed/v1/stream")
        page = visitor.open()
        expect(page.get_by_text("every 5 s")).to_be_visible()
        name = submit(simulated, simulated_job("polled", gpus=0))
        expect(page.get_by_role("link", name="polled")).to_be_visible()
    simulated.call("POST", f"/v1/{name}:cancel", {})
    page.reload()
    expect(page.get_by_text("live")).to_be_visible()


def test_a_page_goes_on_when_the_server_is_back(killable, visit):
    visitor = visit(killable)
    visitor.forgive("ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY")
    page = visitor.open()
    expect(page.get_by_text("live")).to_be_visible()
    killable.stop()
    expect(page.get_by_text("The server has not answered for")).to_be_visible()
    killable.start()
    expect(page.get_by_text("The server has not answered for")).to_be_hidden()
    expect(page.get_by_text("live")).to_be_visible()
    name = submit(killable, simulated_job("after", gpus=0))
    expect(page.get_by_role("link", name="after")).to_be_visible()
    killable.call("POST", f"/v1/{name}:cancel", {})
    wait_on_page(
        page, lambda: killable.call("GET", f"/v1/{name}")[1]["state"] != "JOB_STATE_RUNNING"
    )
