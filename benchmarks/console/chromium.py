"""Starts Debian's Chromium, and measures its pages: paints, heap, frames and answers to input.

Playwright brings no browser: the one of the system is started by its path.  Nothing but this
machine has an address, whatever a page loads.
"""

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

_FLAGS: Final = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--disable-background-networking",
    "--disable-component-update",
)
#: Chromium's own pages, of which each window loads two for suggestions in its address bar: 0.3 s of
#: a processor a window.  The last list of features wins, so Playwright's is repeated.
_FEATURES_OFF: Final = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"),
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"),
    *("NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
)
#: Runs before every script of a page, and measures: measures.js says what.
_MEASURES: Final = Path(__file__).with_name("measures.js").read_text("utf-8")


def find_chromium() -> str | None:
    """Return the path of Debian's chromium; None if it is not installed."""
    return shutil.which("chromium")


@contextmanager
def running_chromium(path: str) -> Iterator[Browser]:
    """Start a browser without a window."""
    is_root = os.geteuid() == 0  # whose processes Chromium's own sandbox refuses
    features = f"--disable-features={','.join(_FEATURES_OFF)}"
    words = [*_FLAGS, features, *(["--no-sandbox"] if is_root else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=words)
        try:
            yield browser
        finally:
            browser.close()


def keep_sign_in(url: str, csrf: str) -> str:
    """Return a script that stores the header of a sign-in, as the page does when it signs in.

    It acts on pages of the server at ``url`` alone, and only once.
    """
    return (
        f"if (location.origin === '{url}' && localStorage.getItem('given') !== '{csrf}') {{"
        f"localStorage.setItem('given', '{csrf}');"
        f"localStorage.setItem('trainshed.csrf', '{csrf}'); }}"
    )


@contextmanager
def measured_session(browser: Browser, url: str, token: str) -> Iterator[BrowserContext]:
    """Yield a signed-in session with an empty cache, whose pages measure themselves."""
    context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 800})
    try:
        context.add_init_script(_MEASURES)
        answer = context.request.post("/trainshed/v1/signin", data={"token": token})
        if not answer.ok:
            raise SystemExit(f"cannot sign in to the console: {answer.status} {answer.text()}")
        context.add_init_script(keep_sign_in(url, answer.json()["csrf"]))
        yield context
    finally:
        context.close()


def first_paint_s(page: Page) -> float:
    """Return the seconds from the navigation to the first paint with content."""
    code = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    return wait_for_value(page, code) / 1000


def usable_s(page: Page, condition: str) -> float:
    """Return the seconds from the navigation until a condition of measures.js first held."""
    return wait_for_value(page, f"window.measured.first[{condition!r}]") / 1000


def reach_s(page: Page, condition: str, act: Callable[[], object]) -> float:
    """Act, and return the seconds from the last key or click until the condition held."""
    page.evaluate("condition => window.awaitCondition(condition)", condition)
    act()
    return wait_for_value(page, "window.measured.reached_ms") / 1000


def wait_for_value(page: Page, code: str, timeout_s: float = 120.0) -> float:
    """Poll an expression until it has a value.  Raises SystemExit after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = page.evaluate(code)
        if value is not None:
            return float(value)
        page.wait_for_timeout(20)
    raise SystemExit(f"the page has no value of {code} after {timeout_s:g} s: {page.url}")


def take_inputs_ms(page: Page) -> list[float]:
    """Return and forget the milliseconds from each input to the end of the next frame."""
    page.wait_for_timeout(100)
    return list(page.evaluate("window.measured.inputs.splice(0)"))


def take_frames_ms(page: Page) -> list[float]:
    """Stop counting frames; return the milliseconds between them."""
    page.evaluate("window.measureFrames(false)")
    return list(page.evaluate("window.measured.frames.splice(0)"))


def heap_mb(page: Page) -> float:
    """Return the size of the page's heap of JavaScript after a collection, in MB."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    used = next(metric["value"] for metric in metrics if metric["name"] == "JSHeapUsedSize")
    return float(used) / 1e6


def p95(values: Sequence[float]) -> float:
    """Return the 95th percentile; the only value of one."""
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else values[0]
