"""Measures the log of a job: a million lines, and one that grows by 2,000 lines a second."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random

from playwright.sync_api import Browser, Page

from benchmarks.console.chromium import (
    heap_mb,
    measured_session,
    p95,
    reach_s,
    take_frames_ms,
    usable_s,
)
from benchmarks.harness import Goal, at_most
from benchmarks.service.documents import PROJECT, VERTEX, pool
from benchmarks.service.log_files import append_lines, attempt_log, training_lines, write_log
from benchmarks.service.measures import median, wait_for
from benchmarks.service.servers import Server
from trainshed.model.log_line import LogLine

TASKS = ("workerpool0-0", "workerpool1-0", "workerpool1-1")
NEEDLE, NEEDLES = "loss=nan", 10
JUMPS, SCREENS, WHEEL_PX = 20, 40, 700
END_COLD_S_MAX, END_WARM_S_MAX, JUMP_S_MAX = 1.0, 0.3, 0.1
FRAME_MS_MAX, HEAP_MB_MAX, GROWTH_MAX = 32.0, 30.0, 0.10
HIT_S_MAX, LITERAL_S_MAX, EXPRESSION_S_MAX = 0.5, 2.0, 3.0
#: Seconds of following after which the page holds as many lines as it ever will, and the browser
#: has compiled its script and filled most of its own lists of requests and long frames.
WARM_S = 30.0
LINES_A_SECOND, APPENDS_A_SECOND = 2000, 10


def make_long_job(server: Server, data: Path, lines: int) -> str:
    """Start a job of three replicas, and write its log; return its id."""
    job, folder = _start(server, data, "long")
    write_log(folder, _with_needles(lines))
    return job


def _start(server: Server, data: Path, name: str) -> tuple[str, Path]:
    pools = [pool(1, gpus=0), pool(2, gpus=0)]
    document = {"displayName": name, "jobSpec": {"workerPoolSpecs": pools}}
    with server.client() as client:
        job = str(client.call("POST", VERTEX, document)["name"]).rpartition("/")[2]
        path = f"/trainshed/v1/projects/{PROJECT}/jobs/{job}"
        wait_for(lambda: client.call("GET", path)["attempt"] == 1, f"{job} has not started")
        return job, attempt_log(data, str(client.call("GET", path)["uid"]))


def _with_needles(lines: int) -> Iterator[LogLine]:
    every = lines // NEEDLES
    for number, line in enumerate(training_lines(lines, TASKS), start=1):
        yield line._replace(text=f"{line.text} {NEEDLE}") if number % every == 0 else line


def measure_log(browser: Browser, server: Server, job: str, lines: int) -> list[Goal]:
    """Measure the page of the long log."""
    size = f"log of {lines:,} lines"
    path = f"/console/jobs/{PROJECT}/{job}"
    with measured_session(browser, server.url, server.token) as session:
        page = session.new_page()
        page.goto("/console/nodes")  # the scripts are in the cache, the index of the log is not
        page.wait_for_timeout(500)
        ends = []
        for _ in range(4):
            page.goto(path)
            ends.append(usable_s(page, "lines"))
        jumps = [_jump(page, number) for number in _numbers(lines)]
        frames = _scroll(page)
        searches = [_search(page, condition, NEEDLE) for condition in ("hit", "searched")]
        page.get_by_role("button", name=".*", exact=True).click()
        expression = _search(page, "searched", r"step \d*99 loss=0\.\d+ .*nan$")
        heap = heap_mb(page)
    return [
        at_most(f"{size}: at the end, index cold", ends[0], END_COLD_S_MAX, "s"),
        at_most(f"{size}: at the end, index warm", median(ends[1:]), END_WARM_S_MAX, "s"),
        at_most(f"{size}: any line, median", median(jumps), JUMP_S_MAX, "s"),
        at_most(f"{size}: frames, p95", p95(frames), FRAME_MS_MAX, "ms"),
        at_most(f"{size}: first hit of a literal", searches[0], HIT_S_MAX, "s"),
        at_most(f"{size}: all hits of a literal", searches[1], LITERAL_S_MAX, "s"),
        at_most(f"{size}: all hits of an expression", expression, EXPRESSION_S_MAX, "s"),
        at_most(f"{size}: heap", heap, HEAP_MB_MAX, "MB"),
    ]


def _numbers(lines: int) -> list[int]:
    random = Random(1)  # noqa: S311  # not for security
    return [random.randrange(1, lines + 1) for _ in range(JUMPS)]


def _jump(page: Page, number: int) -> float:
    """Go to a line; return the seconds from Enter to the line."""
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press(":")
    page.get_by_role("textbox", name=re.compile("^Line")).fill(str(number))
    return reach_s(page, f"line {number:,}", lambda: page.keyboard.press("Enter"))


def _scroll(page: Page) -> list[float]:
    """Scroll with the wheel; return the milliseconds between frames."""
    page.get_by_role("log").hover()
    page.evaluate("window.measureFrames(true)")
    for _ in range(SCREENS):
        page.mouse.wheel(0, -WHEEL_PX)
        page.wait_for_timeout(50)
    return take_frames_ms(page)


def _search(page: Page, condition: str, text: str) -> float:
    """Search for a text; return the seconds from Enter until the condition holds."""
    field = page.get_by_label("Find in the log")
    field.fill("")
    field.press("Enter")
    page.wait_for_timeout(300)
    field.fill(text)
    return reach_s(page, condition, lambda: field.press("Enter"))


def measure_following(browser: Browser, server: Server, data: Path, seconds: float) -> list[Goal]:
    """Follow a log that grows; every line on the screen follows the one before.

    The heap is measured after a collection, at the end of the warm-up and of the time after it.
    """
    job, folder = _start(server, data, "growing")
    write_log(folder, training_lines(1, TASKS[:1], first_ns=time.time_ns()))
    with measured_session(browser, server.url, server.token) as session:
        page = session.new_page()
        page.goto(f"/console/jobs/{PROJECT}/{job}")
        usable_s(page, "lines")
        with growing(folder) as written:
            warm_s = min(WARM_S, seconds)
            page.wait_for_timeout(warm_s * 1000)
            before = heap_mb(page)
            gaps = _count_gaps(page, seconds)
            after = heap_mb(page)
        end = f"{written[0] + 1:,}"
        page.get_by_role("link", name=end, exact=True).wait_for()
    name = f"log followed at {LINES_A_SECOND} lines/s for {seconds:g} s"
    return [
        at_most(f"{name}: gaps and repetitions on the screen", gaps, 0, ""),
        at_most(
            f"{name}: heap grows by",
            max(0.0, after / before - 1),
            GROWTH_MAX,
            "",
            f"after {warm_s:g} s of warm-up: {before:.1f} MB, at the end: {after:.1f} MB",
        ),
    ]


@contextmanager
def growing(folder: Path) -> Iterator[list[int]]:
    """Append lines in a thread; the list has their number at the end."""
    is_over = threading.Event()
    written = [0]

    def grow() -> None:
        began = time.monotonic()
        part = LINES_A_SECOND // APPENDS_A_SECOND
        while not is_over.is_set():
            lines = training_lines(
                part, TASKS[:1], first_ns=time.time_ns(), first_step=written[0] + 1
            )
            append_lines(folder, (_nearer(line, n) for n, line in enumerate(lines)))
            written[0] += part
            is_over.wait(began + written[0] / LINES_A_SECOND - time.monotonic())

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield written
    finally:
        is_over.set()
        thread.join()


def _nearer(line: LogLine, number: int) -> LogLine:
    """Stamp a line a microsecond after the one before, so that stamps ascend."""
    return line._replace(stamp_ns=line.stamp_ns - number * 999_000)


def _count_gaps(page: Page, seconds: float) -> int:
    gaps, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        texts = page.get_by_role("log").locator(".line-number").all_inner_texts()
        numbers = [int(text.replace(",", "")) for text in texts if text != "·"]
        gaps += sum(after != before + 1 for before, after in pairwise(numbers))
        page.wait_for_timeout(250)
    return gaps
