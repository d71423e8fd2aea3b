"""Measures the page of a large study, and the check of a text while it is typed."""

import json
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

from benchmarks.console.chromium import (
    measured_session,
    p95,
    take_inputs_ms,
    usable_s,
    wait_for_value,
)
from benchmarks.harness import ROOT, Goal, at_most
from benchmarks.service.documents import PROJECT, three_pools
from benchmarks.service.measures import median
from benchmarks.service.servers import Server

ROUNDS = 3
PAGE_S_MAX, BRUSH_MS_MAX, CHECK_MS_MAX = 2.0, 100.0, 150.0
NAME = "large"
GENERATOR = ROOT / "tests" / "console" / "generated_studies.py"
CHECKS = 10
CHECK_TIME = """performance.getEntriesByType("resource")
  .filter(entry => entry.name.endsWith("jobs:check")).map(entry => entry.duration)[%d]"""


def add_study(data: Path, trials: int) -> None:
    """Write a study that has ended into the database of a server that does not run."""
    command = [sys.executable, str(GENERATOR), str(data), PROJECT, NAME, str(trials)]
    subprocess.run(command, check=True, cwd=ROOT)


def measure_study(browser: Browser, server: Server) -> list[Goal]:
    """Measure the page of the study, and brushing an axis of its parallel coordinates."""
    usables = []
    with measured_session(browser, server.url, server.token) as session:
        page = session.new_page()
        for _ in range(ROUNDS):
            page.goto(f"/console/studies/{PROJECT}/{NAME}")
            usables.append(usable_s(page, "charts"))
        brushes = _brush(page)
    return [
        at_most("study: all figures", median(usables), PAGE_S_MAX, "s"),
        at_most("study: next paint while brushing, p95", p95(brushes), BRUSH_MS_MAX, "ms"),
    ]


def _brush(page: Page) -> list[float]:
    """Drag along an axis; return the milliseconds to the next paints."""
    chart = page.locator(".chart canvas").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    if box is None:
        raise SystemExit("the parallel coordinates of the study have no place on the page")
    page.wait_for_timeout(500)
    x = box["x"] + box["width"] * 0.08
    page.mouse.move(x, box["y"] + box["height"] * 0.3)
    page.mouse.down()
    take_inputs_ms(page)
    for step in range(30):
        page.mouse.move(x, box["y"] + box["height"] * (0.3 + step / 75))
        page.wait_for_timeout(30)
    page.mouse.up()
    return take_inputs_ms(page)


def measure_check(browser: Browser, server: Server) -> list[Goal]:
    """Type into the editor of Submit; return the time of the server's checks."""
    with measured_session(browser, server.url, server.token) as session:
        page = session.new_page()
        page.goto("/console/submit")
        usable_s(page, "text")
        page.get_by_role("main").get_by_label("project", exact=True).fill(PROJECT)
        page.get_by_label("Text of the job").click()
        page.keyboard.insert_text(json.dumps(three_pools(1)))
        times = []
        for number in range(CHECKS):
            page.keyboard.type(" ")
            times.append(wait_for_value(page, CHECK_TIME % number))
    return [at_most("check of a text, after typing stops", median(times), CHECK_MS_MAX, "ms")]
