"""A hostile page in a signed-in user's browser gets nothing and orders nothing."""

import http.client
import http.server
import queue
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from console.browser import wait_on_page
from console.documents import simulated_job
from e2e.support import PROJECT, native, submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: What the page tries.
ATTEMPTS = Path(__file__).with_name("hostile_page.js").read_text()


class Page(http.server.BaseHTTPRequestHandler):
    text = b""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.text)

    def log_message(self, *_):
        pass


@contextmanager
def serving_page(text, host, kind=Page):
    """A server of one page; gives its address."""
    handler = type("HostilePage", (kind,), {"text": text.encode()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{host}:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("localhost", id="another-site"),
        pytest.param("127.0.0.1", id="another-port", marks=pytest.mark.full),
    ],
)
def test_a_hostile_page_gets_nothing(simulated, visit, host):
    job = submit(simulated, simulated_job("target", gpus=0))
    simulated.wait_for(f"/v1/{job}", {"JOB_STATE_RUNNING"})
    visitor = visit(simulated)
    visitor.forgive(".")  # it is not the console that does this
    constants = f"""
const SERVER = {simulated.url!r};
const CANCEL = "/trainshed/v1/projects/{PROJECT}/jobs:cancel";
const ORDER = JSON.stringify({{names: [{job!r}]}});
"""
    text = f"<!DOCTYPE html><script type=module>{constants}{ATTEMPTS}</script><body></body>"
    with serving_page(text, host) as address:
        page = visitor.context.new_page()
        page.goto(address)
        expect(page.locator("#done")).to_be_attached()
        results = page.evaluate("JSON.parse(document.getElementById('done').textContent)")
    assert set(results.values()) == {"nothing"}, results
    assert native(simulated, job)["state"] == "RUNNING"
    own = visitor.open()
    expect(own.get_by_role("link", name="target").first).to_be_visible()
    simulated.call("POST", f"/v1/{job}:cancel", {})


class Thief(Page):
    cookies = queue.SimpleQueue()

    def do_GET(self):
        if cookie := self.headers.get("Cookie"):
            self.cookies.put(cookie)
        super().do_GET()


def test_a_program_on_another_port_gets_the_cookie_and_nothing_with_it(simulated, visit):
    """Browsers send a cookie to all ports of its host, and a job's program can listen on one."""
    visitor = visit(simulated)
    visitor.forgive(".")
    with serving_page("<script>fetch('/trainshed/v1/x')</script>", "127.0.0.1", Thief) as address:
        page = visitor.context.new_page()
        page.goto(address)
        wait_on_page(page, lambda: not Thief.cookies.empty())
    stolen = {"Cookie": Thief.cookies.get(), "Sec-Fetch-Site": "same-origin"}
    for header in ({}, {"X-Trainshed-Csrf": "guessed"}):
        for verb, path in (("GET", "signin"), ("GET", "nodes"), ("POST", "downloads")):
            answer = call_with(simulated, verb, path, {**stolen, **header})
            assert answer[0] in (401, 403), answer
            assert "csrf" not in answer[1].lower().replace("x-trainshed-csrf", "")
    own = visitor.open("/console/nodes")
    expect(own.get_by_role("heading", name="Nodes")).to_be_visible()


def call_with(server, verb, path, headers):
    """(status, text) of a call without a token."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    headers = {"Content-Type": "application/json", **headers}
    connection.request(verb, f"/trainshed/v1/{path}", b"{}" if verb == "POST" else None, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


@pytest.mark.full
def test_the_refused_calls_of_a_hostile_page_are_in_the_audit_log(simulated, visit):
    visitor = visit(simulated)
    visitor.forgive(".")
    code = f"fetch('{simulated.url}/trainshed/v1/projects/{PROJECT}/jobs:cancel', "
    code += "{method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'})"
    with serving_page(f"<script>{code}</script>", "127.0.0.1") as address:
        page = visitor.context.new_page()
        page.goto(address)
        entries = wait_on_page(page, lambda: refused_entries(simulated))
    assert entries[-1]["method"].endswith("jobs:cancel") or "cancel" in str(entries[-1])


def refused_entries(server):
    _, log = server.call("GET", "/trainshed/v1/audit?limit=50")
    return [
        entry for entry in log["entries"] if "cancel" in str(entry) and "PERMISSION" in str(entry)
    ]


@pytest.mark.full
def test_a_link_from_another_site_opens_the_console(simulated, visit):
    """A chat or an alert links to a job; the browser then says cross-site and navigate."""
    visitor = visit(simulated)
    visitor.forgive("^another server: GET http://localhost")
    with serving_page(f'<a href="{simulated.url}/console/nodes">node</a>', "localhost") as address:
        page = visitor.context.new_page()
        page.goto(address)
        page.get_by_role("link", name="node").click()
        expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
