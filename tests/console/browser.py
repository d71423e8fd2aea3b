"""A browser for tests, and pages that note what the console must never do."""

import os
import re
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from benchmarks.console.chromium import find_chromium, keep_sign_in, running_chromium
from PIL import Image
from playwright.sync_api import Page, expect

from conftest import FULL
from server_process import Waiting

#: A long deadline costs time only if a test fails; a busy machine may need long.  The variable
#: shortens it for a person who writes a test.
DEADLINE_MS = int(os.environ.get("TRAINSHED_CONSOLE_DEADLINE_MS", "60000"))
#: Where tests leave pictures of what they saw; git ignores the folder.
PICTURES = Path(__file__).parents[2] / "build" / "console"
#: The pictures of the guides.
GUIDE_PICTURES = Path(__file__).parents[2] / "docs" / "images"
OF_THE_GUIDE = (
    "queue-why",
    "submit-change",
    "log-hit",
    "nodes-maintain",
    "study",
    "study-front",
    "job-failed",
    "job-metrics",
)
TAKES_PICTURES = FULL or bool(os.environ.get("UPDATE_PICTURES"))
WIDTH, HEIGHT = 1280, 800
#: Every picture is taken in both themes, and the page is accessible in both.
FULL = os.environ.get("TRAINSHED_CHAOS") == "full"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
#: Chromium's own words for an answer with a status of 400 and more; ``_watch`` judges these.
_STATUS_ERROR = re.compile(r"Failed to load resource: the server responded with a status of \d+")
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", event =>
  tellViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""

expect.set_options(timeout=DEADLINE_MS)


@contextmanager
def chromium_or_skip():
    """A browser without a window; skips the test where there is none."""
    path = find_chromium()
    if path is None:
        pytest.skip("Chromium is not installed (apt install chromium)")
    with running_chromium(path) as browser:
        yield browser


class Visitor:
    """A browser's session on one server: its own cookies, and pages that are watched.

    ``faults`` has a sentence for each violation of the policy, error of a script, failed request,
    answer with a status of 500 and more, and request to another server.  ``forgives`` are patterns
    of faults that a test causes itself.
    """

    def __init__(self, browser, url, **options):
        self.url = url
        self.faults = []
        self.requests = []
        """(verb, path with query) of every request of its pages."""
        self.forgives = []
        viewport = {"width": WIDTH, "height": HEIGHT}
        self.context = browser.new_context(
            base_url=url, viewport=viewport, reduced_motion="reduce", **options
        )
        self.context.set_default_timeout(DEADLINE_MS)
        self.context.expose_function("tellViolation", lambda text: self._fault("policy", text))
        self.context.add_init_script(_TELL_VIOLATIONS)
        self.context.on("page", self._watch)

    def sign_in(self, token):
        """Sign in without the form, which has a test of its own."""
        answer = self.context.request.post("/trainshed/v1/signin", data={"token": token})
        assert answer.ok, f"{answer.status} {answer.text()}"
        self.context.add_init_script(keep_sign_in(self.url, answer.json()["csrf"]))
        return self

    def open(self, path="/console/", color_scheme=None) -> Page:
        """Open a page of the console in a new tab, in a theme if one is given."""
        page = self.context.new_page()
        if color_scheme:
            page.emulate_media(color_scheme=color_scheme, reduced_motion="reduce")
        page.goto(path)
        return page

    def forgive(self, pattern):
        """Do not count faults that a test causes itself, such as a killed server."""
        self.forgives.append(re.compile(pattern))

    def check(self):
        """Fail for the faults so far."""
        faults = [text for text in self.faults if not any(p.search(text) for p in self.forgives)]
        assert not faults, "\n".join(faults)

    def close(self):
        self.context.close()

    def _fault(self, kind, text):
        self.faults.append(f"{kind}: {text}")

    def _watch(self, page):
        page.on("pageerror", lambda error: self._fault("script", error.stack or str(error)))
        page.on("console", self._judge_message)
        page.on("request", self._judge_request)
        page.on("requestfailed", self._judge_failure)
        page.on("response", self._judge_response)

    def _judge_message(self, message):
        if message.type == "error" and not _STATUS_ERROR.match(message.text):
            self._fault("console", message.text)

    def _judge_request(self, request):
        parts = urlsplit(request.url)
        if parts.scheme in ("data", "blob"):
            return
        if f"{parts.scheme}://{parts.netloc}" != self.url:
            self._fault("another server", f"{request.method} {request.url}")
        query = f"?{parts.query}" if parts.query else ""
        self.requests.append((request.method, parts.path + query))

    def _judge_failure(self, request):
        if request.failure != "net::ERR_ABORTED":  # a page that is left ends its requests
            self._fault("request", f"{request.method} {request.url}: {request.failure}")

    def _judge_response(self, response):
        if response.status >= 500:
            self._fault("answer", f"{response.status} {response.request.method} {response.url}")


def wait_on_page(page, is_so, why=lambda: ""):
    """Poll until something outside of the page is so; the page goes on meanwhile."""
    waiting = Waiting(DEADLINE_MS / 1000)
    while not (outcome := is_so()):
        assert not waiting.is_over, why()
        page.wait_for_timeout(50)
    return outcome


def take_picture(page, name):
    """Leave a picture of a page for a person who looks at it; ``make test`` leaves none.

    At full length also one in the other theme; the page must be accessible in both.  With
    UPDATE_PICTURES=1 the pictures of the guides are replaced too.
    """
    if not TAKES_PICTURES:
        return
    path = save_picture(page, name)
    if name in OF_THE_GUIDE and os.environ.get("UPDATE_PICTURES"):
        with Image.open(path) as picture:
            picture.save(GUIDE_PICTURES / f"console-{name}.webp", quality=82, method=6)
    if FULL:
        violations = find_violations(page)
        assert violations == [], violations
        is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        themes = ("dark", "light")
        page.emulate_media(color_scheme=themes[is_dark])
        save_picture(page, f"{name}-{themes[is_dark]}")
        violations = find_violations(page)
        assert violations == [], violations
        page.emulate_media(color_scheme=themes[not is_dark])


def save_picture(page, name):
    """Save a picture of a page as it is, but in ``make test``; return its path."""
    path = PICTURES / f"{name}.png"
    if TAKES_PICTURES:
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=path)
    return path


def find_violations(page):
    """Return a line for each element at which a rule of axe finds a fault."""
    results = Axe().run(page, options=RULES).response
    return [
        f"{violation['id']}: {node['target']} {node['html'][:160]}"
        for violation in results["violations"]
        for node in violation["nodes"]
    ]
