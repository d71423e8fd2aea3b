"""Starts Debian's Chromium, and measures its pages: paints, heap, frames and answers to input.

Playwright brings no browser: the one of the system is started by its path.  Nothing but this
machine has an address, whatever a page loads.
"""

import os
import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

_FLAGS: Final = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--disable-background-networking",
    "--disable-component-update",
)
#: Notes when ``window.measureFirst(selector)`` first matches, and how long the page takes from an
#: input event to the end of the next frame.  Runs before every script of a page.
_MEASURES: Final = """
(() => {
  const first = {}, inputs = [];
  let selectors = [];
  const look = () => {
    selectors = selectors.filter(selector => {
      const matches = document.querySelector(selector) !== null;
      if (matches) first[selector] = performance.now();
      return !matches;
    });
  };
  window.measured = {first, inputs, frames: [], sightings: {}};
  window.watchFor = list => { selectors = list; look(); };
  const seen = /\\bseen-\\d+\\b/g;
  new MutationObserver(changes => {
    if (selectors.length) look();
    if (!window.measured.isWatching) return;
    for (const change of changes) {
      for (const node of [change.target, ...change.addedNodes]) {
        for (const word of (node.textContent ?? "").slice(0, 4000).match(seen) ?? []) {
          window.measured.sightings[word] ??= performance.timeOrigin + performance.now();
        }
      }
    }
  }).observe(document, {childList: true, subtree: true, characterData: true});
  for (const kind of ["keydown", "click", "input"]) {
    addEventListener(kind, event => {
      const began = event.timeStamp;
      requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => inputs.push(performance.now() - began);
        channel.port2.postMessage(0);
      });
    }, {capture: true, passive: true});
  }
  window.measureFrames = isOn => {
    window.measured.isCounting = isOn;
    let last = performance.now();
    const count = now => {
      window.measured.frames.push(now - last);
      last = now;
      if (window.measured.isCounting) requestAnimationFrame(count);
    };
    if (isOn) requestAnimationFrame(time => { last = time; requestAnimationFrame(count); });
  };
})();
"""


def find_chromium() -> str | None:
    """Return the path of Debian's chromium; None if it is not installed."""
    return shutil.which("chromium")


@contextmanager
def running_chromium(path: str) -> Iterator[Browser]:
    """Start a browser without a window."""
    is_root = os.geteuid() == 0  # whose processes Chromium's own sandbox refuses
    words = [*_FLAGS, *(["--no-sandbox"] if is_root else [])]
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


def first_match_s(page: Page, selector: str) -> float:
    """Return the seconds from the navigation until an element first matched."""
    page.evaluate("selector => window.watchFor([selector])", selector)
    return wait_for_value(page, f"window.measured.first[{selector!r}]") / 1000


def wait_for_value(page: Page, code: str, timeout_s: float = 60.0) -> float:
    """Poll an expression until it has a value.  Raises SystemExit after ``timeout_s``."""
    for _ in range(int(timeout_s * 50)):
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
