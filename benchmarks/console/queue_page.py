"""Measures the queue: its first visit, inputs and new jobs while 20 jobs change each second."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page

from benchmarks.console.chromium import (
    first_paint_s,
    heap_mb,
    measured_session,
    p95,
    take_inputs_ms,
    usable_s,
)
from benchmarks.harness import Goal, Json, at_most
from benchmarks.service.documents import PROJECT, VERTEX, simple
from benchmarks.service.measures import median
from benchmarks.service.servers import Server

ROUNDS = 5
PAINT_S_MAX, USABLE_S_MAX, INPUT_MS_MAX, SEEN_S_MAX, HEAP_MB_MAX = 0.5, 1.0, 50.0, 1.0, 30.0
#: As many older jobs are cancelled.
SUBMITS_A_SECOND = 10
LATE_S = 5.0
TYPED = "simple-1234"
COLUMNS = ("Name", "State", "GPUs", "Replicas", "By")
SELECTED = 20


def measure_queue(browser: Browser, server: Server, jobs: int, seconds: float) -> list[Goal]:
    """Measure the queue of a server that has ``jobs`` open jobs."""
    size = f"queue of {jobs} jobs"
    paints, usables = zip(*(_first_visit(browser, server) for _ in range(ROUNDS)), strict=True)
    with (
        measured_session(browser, server.url, server.token) as session,
        changing(server) as committed,
    ):
        page = session.new_page()
        page.goto("/console/")
        usable_s(page, "rows")
        delays = _sightings(page, committed, seconds)
        inputs = _inputs(page)
        heap = heap_mb(page)
    return [
        at_most(f"{size}: first paint, cold", median(paints), PAINT_S_MAX, "s"),
        at_most(f"{size}: usable, cold", median(usables), USABLE_S_MAX, "s"),
        at_most(f"{size}: next paint after an input, p95", p95(inputs), INPUT_MS_MAX, "ms"),
        at_most(f"{size}: a change seen after its commit, p95", p95(delays), SEEN_S_MAX, "s"),
        at_most(f"{size}: heap", heap, HEAP_MB_MAX, "MB"),
    ]


def _first_visit(browser: Browser, server: Server) -> tuple[float, float]:
    with measured_session(browser, server.url, server.token) as session:
        page = session.new_page()
        page.goto("/console/")
        usable = usable_s(page, "rows")
        return first_paint_s(page), usable


@contextmanager
def changing(server: Server) -> Iterator[dict[str, float]]:
    """Submit and cancel jobs in a thread; yield the times of commits in ms, by new name."""
    committed: dict[str, float] = {}
    is_over = threading.Event()
    thread = threading.Thread(target=_change, args=(server, committed, is_over))
    thread.start()
    try:
        yield committed
    finally:
        is_over.set()
        thread.join()


def _change(server: Server, committed: dict[str, float], is_over: threading.Event) -> None:
    with server.client() as client:
        page = client.call("GET", f"/trainshed/v1/projects/{PROJECT}/jobs?open=true&pageSize=5000")
        older = [str(row["name"]) for row in page["jobs"]]
        began = time.monotonic()
        while not is_over.is_set():
            name = f"seen-{len(committed)}"
            document: Json = {**simple(0), "displayName": name}
            client.call("POST", VERTEX, document)
            committed[name] = time.time() * 1000
            if older:
                client.call("POST", f"/v1/{older.pop()}:cancel", {})
            is_over.wait(began + len(committed) / SUBMITS_A_SECOND - time.monotonic())


def _sightings(page: Page, committed: dict[str, float], seconds: float) -> list[float]:
    """Return the seconds from the commit of each new job to its row in the page.

    A job without a row counts as LATE_S.
    """
    page.evaluate("window.measured.isWatching = true")  # waits while the page reads its list
    first = len(committed)
    page.wait_for_timeout(seconds * 1000)
    last = len(committed)
    page.wait_for_timeout(LATE_S * 1000)
    sightings = page.evaluate("window.measured.sightings")
    page.evaluate("window.measured.isWatching = false")
    names = [f"seen-{number}" for number in range(first, last)]
    late = {name: committed[name] + LATE_S * 1000 for name in names}
    return [({**late, **sightings}[name] - committed[name]) / 1000 for name in names]


def _inputs(page: Page) -> list[float]:
    """Type, sort and select while jobs change; return the milliseconds to the next paints."""
    page.wait_for_timeout(500)
    take_inputs_ms(page)
    search = page.get_by_label("Part of a name or id")
    search.press_sequentially(TYPED, delay=60)
    for _ in TYPED:
        search.press("Backspace")
    grid = page.get_by_role("grid", name="Jobs")
    for column in COLUMNS:
        grid.get_by_role("button", name=column, exact=True).click()
        page.wait_for_timeout(60)
    page.evaluate("document.activeElement.blur()")
    for _ in range(SELECTED):
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.wait_for_timeout(30)
    return take_inputs_ms(page)
