"""Measures the console's pages in a real Chromium, beside an empty page of the same server.

    python -m benchmarks console [--jobs 5000] [--lines 1000000] [--trials 1000] [--follow-s 600]

A server with simulated nodes has open jobs of which 20 change each second, a job of three replicas
with a long log, and a large study.  ``console-logs`` and ``console-stream`` measure the server's
part.  The sizes of the scripts are those that the server sends.
"""

import argparse
import re
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks.console.chromium import (
    find_chromium,
    first_paint_s,
    measured_session,
    running_chromium,
)
from benchmarks.console.curves_page import measure_curves
from benchmarks.console.log_page import make_long_job, measure_following, measure_log
from benchmarks.console.queue_page import measure_queue
from benchmarks.console.study_page import add_study, measure_check, measure_study
from benchmarks.harness import Benchmark, Goal, Report, at_most, tell
from benchmarks.service.measures import median, queue
from benchmarks.service.servers import Server, simulated_at
from trainshed.api.console.bundle import FOLDER

GPUS = 8
#: The share of the jobs that the nodes can run at once.
RUNNING_SHARE = 0.8
#: The scripts that the page names; the others are loaded when they are needed.
SCRIPT = re.compile(r"/console/static/([\w.-]+\.js)\b")
FIRST_KB_MAX, ALL_KB_MAX = 45.0, 460.0
ROUNDS = 5


def measure(args: argparse.Namespace) -> Report:
    """Measure every page; without a browser only say so."""
    chromium = find_chromium()
    if chromium is None:
        reason = "Chromium is not installed (apt install chromium)"
        return Report(goals=bundle_goals(), left_out={"pages": reason})
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        nodes = max(4, int(args.jobs * RUNNING_SHARE) // GPUS)
        with simulated_at(data, gpus=GPUS, nodes=nodes):
            tell("the database is made")
        add_study(data, args.trials)
        with (
            simulated_at(data, gpus=GPUS, nodes=nodes) as server,
            running_chromium(chromium) as browser,
        ):
            goals = [*bundle_goals(), *empty_page(browser, server)]
            goals += measure_pages(browser, server, data, args)
    return Report(goals=goals)


def measure_pages(
    browser: Browser, server: Server, data: Path, args: argparse.Namespace
) -> list[Goal]:
    """Measure the pages in turn."""
    job = make_long_job(server, data, args.lines)
    goals = measure_study(browser, server)
    tell("the study is measured")
    goals += measure_check(browser, server)
    goals += measure_curves(browser, server)
    goals += measure_log(browser, server, job, args.lines)
    goals += measure_following(browser, server, data, args.follow_s)
    tell("the log is measured")
    queue(server, args.jobs)
    return [*goals, *measure_queue(browser, server, args.jobs, args.changes_s)]


def bundle_goals() -> list[Goal]:
    """Return the sizes of the scripts and styles, compressed as the server sends them."""
    sizes = {path.name: path.stat().st_size / 1000 for path in FOLDER.glob("*.gz")}
    page = (FOLDER / "index.html").read_text("utf-8")
    first = sum(sizes[f"{name}.gz"] for name in set(SCRIPT.findall(page)))
    return [
        at_most("first scripts, compressed", first, FIRST_KB_MAX, "kB"),
        at_most("all scripts and styles, compressed", sum(sizes.values()), ALL_KB_MAX, "kB"),
    ]


def empty_page(browser: Browser, server: Server) -> list[Goal]:
    """Return the first paint of the server's front page, which has no script."""
    paints = []
    for _ in range(ROUNDS):
        with measured_session(browser, server.url, server.token) as session:
            page = session.new_page()
            page.goto("/")
            paints.append(first_paint_s(page))
    return [at_most("an empty page: first paint", median(paints), None, "s")]


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={
        "jobs": (5000, 60),
        "changes-s": (30, 2),
        "lines": (1_000_000, 20_000),
        "follow-s": (600, 2),
        "trials": (1000, 30),
    },
)
