"""Measures the CPU time of pages of metrics, on both databases.

    python -m benchmarks observability --only scrapes [--scrapes-queued 50000]

The pages are read as Prometheus reads them, in a process with the store and without engines; the
CPU time is that of this process.  The store has open jobs in 20 projects beside ended ones, and
then a long queue in 300 projects.  The jobs that run hold seats, and those at the front of the
queue have explanations, as the controller writes them.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select

from benchmarks.harness import Benchmark, Goal, Report, at_most
from benchmarks.service.servers import postgres, postgres_programs
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.job import JobSpec
from trainshed.model.resources import Demand, GroupDemand, JobDemand, Node, Seat
from trainshed.model.roles import Dialect, Role
from trainshed.model.time_use import HELD_USES
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.job_page import JobsPage
from trainshed.service.telemetry.server_page import MetricsPage, PageSources
from trainshed.store import codec
from trainshed.store.bulk import add_rows
from trainshed.store.front import FRONT_MAX
from trainshed.store.opening import Store, open_store
from trainshed.store.records.jobs import JobKind, NewJob
from trainshed.store.tables import ATTEMPT_USAGE, ATTEMPTS, JOBS

OPEN_MS_MAX: Final = 5.0
QUEUED_MS_MAX: Final = 15.0
JOBS_MS_MAX: Final = 15.0
SERIES_MAX: Final = 600
_PROJECTS: Final = 20
_MANY_PROJECTS: Final = 300
_READINGS: Final = 15
_EVERY_S: Final = 15.0
_AT_ONCE: Final = 5000
#: Days for which the running jobs have held their machines.
_DAYS: Final = 5
_DEMAND: Final = JobDemand(
    region="us-central1",
    groups=(GroupDemand(role=Role.PRIMARY, count=1, each=Demand(vcpus=4, memory_gb=15.0)),),
)
_SEATS: Final = codec.SEATS.encode((Seat(role=Role.PRIMARY, index=0, node="n1"),))

Rows = Iterator[dict[str, Any]]


def measure(args: argparse.Namespace) -> Report:
    """Measure SQLite, and PostgreSQL where it is installed."""
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'trainshed.db')}"
        report.goals += measure_database(url, "SQLite", args)
    if programs := postgres_programs():
        with postgres(programs) as url:
            report.goals += measure_database(url, "PostgreSQL", args)
    else:
        report.left_out["scrapes of PostgreSQL"] = "not installed (apt install postgresql)"
    return report


def measure_database(url: str, database: str, args: argparse.Namespace) -> Iterator[Goal]:
    """Measure the pages, first with open and ended jobs, then with a long queue too."""
    store = open_store(url)
    try:
        store.see_nodes("", [Node(name="n1", vcpus=96, memory_gb=512.0)])
        first = Filler(store)
        first.add("RUNNING", args.open * 4 // 5, _PROJECTS)
        first.add("QUEUED", args.open - args.open * 4 // 5, _PROJECTS)
        first.add("SUCCEEDED", args.ended, _PROJECTS)
        explain_front(store)
        label = f"{database}: {args.open} open, {args.ended} ended"
        yield measure_page(store, f"scrape, {label}", OPEN_MS_MAX)
        yield measure_jobs(store, f"/metrics/jobs, {label}")
        first.add("QUEUED", args.queued, _MANY_PROJECTS)
        explain_front(store)
        label = f"{database}: {args.queued} queued, {_MANY_PROJECTS} projects"
        yield measure_page(store, f"scrape, {label}", QUEUED_MS_MAX)
        yield count_series(store, f"series, {label}")
    finally:
        store.close()


class Filler:
    """Adds copies of one job."""

    def __init__(self, store: Store) -> None:
        """Add the first job."""
        self._store = store
        spec = JobSpec(dialect=Dialect.AIPLATFORM_V1, display_name="job")
        record, _ = store.add_job(
            NewJob(
                kind=JobKind.CUSTOM_JOB, project="p0", location="us-central1", spec=spec,
                expanded=spec, demand=_DEMAND, creator="ada",
            )
        )  # fmt: skip
        self._uid = int(record.uid)
        self._added = 0

    def add(self, state: str, jobs: int, projects: int) -> None:
        """Add jobs in a state, in turn to each project."""
        template = select(JOBS).where(JOBS.c.uid == self._uid)
        [row] = self._store._db.rows(template)  # noqa: SLF001
        rows = list(self._copies({**row._mapping}, state, jobs, projects))  # noqa: SLF001
        for first in range(0, len(rows), _AT_ONCE):
            self._write(rows[first : first + _AT_ONCE], has_seats=state == "RUNNING")

    def _copies(self, row: dict[str, Any], state: str, jobs: int, projects: int) -> Rows:
        for number in range(jobs):
            self._added += 1
            at_ns = row["create_ns"] + self._added
            yield {
                **row,
                "uid": row["uid"] + self._added,
                "job_id": f"job-{self._added}",
                "project": f"p{number % projects}",
                "create_ns": at_ns,
                "state": state,
                "attempt": int(state == "RUNNING"),
                "held_ns": at_ns if state == "RUNNING" else None,
                "end_ns": at_ns if state == "SUCCEEDED" else None,
            }

    def _write(self, rows: Sequence[dict[str, Any]], *, has_seats: bool) -> None:
        attempts = [
            {"uid": row["uid"], "attempt": 1, "seats": _SEATS, "create_ns": row["create_ns"]}
            for row in (rows if has_seats else ())
        ]
        usage = [_usage(row, day) for row in (rows if has_seats else ()) for day in range(_DAYS)]

        def write(tx: Any) -> None:
            add_rows(tx, JOBS, rows)
            add_rows(tx, ATTEMPTS, attempts)
            add_rows(tx, ATTEMPT_USAGE, usage)

        self._store._db.write(write)  # noqa: SLF001


def _usage(row: dict[str, Any], day: int) -> dict[str, Any]:
    """Return what a running job used on a day."""
    seconds = {f"{use}_s": 3600.0 for use in HELD_USES if use != "unknown"}
    return {
        "uid": row["uid"], "attempt": 1, "machine_type": "n1-standard-4", "day": day,
        "project": row["project"], "creator": "ada", "job_id": row["job_id"], "gpus": 1,
        "vcpus": 4.0, "placed_ns": row["create_ns"], "end_ns": None, **seconds, "unknown_s": 0.0,
        "energy_j": 1e6, "hour_price": 0.2, "currency": "USD", "price_source": "list",
        "price_date": "2026-07-30", "update_ns": row["create_ns"],
    }  # fmt: skip


def explain_front(store: Store) -> None:
    """Store why the jobs at the front of the queue wait."""
    store.explain(
        {
            job.uid: Explanation(
                reason=Reason.CAPACITY, message=f"The nodes of job {job.uid} are in use by others."
            )
            for job in store.waiting(limit=FRONT_MAX)
        }
    )


def make_page(store: Store, counters: Counters) -> Callable[[], str]:
    """Return what reads the page, each time from the store."""
    clock = iter(range(1_000_000))
    return MetricsPage(
        PageSources(store=store, counters=counters), monotonic=lambda: 10.0 * next(clock)
    ).text


def measure_page(store: Store, name: str, limit_ms: float) -> Goal:
    """Measure the CPU time of one reading of the default page."""
    return judge(name, make_page(store, Counters()), limit_ms)


def measure_jobs(store: Store, name: str) -> Goal:
    """Measure the CPU time of one reading of the page of jobs, without files of programs.

    A reading each 15 s, as Prometheus does: one of four reads what jobs have used.
    """
    now_s = 0.0
    page = JobsPage(store, 1000, monotonic=lambda: now_s)

    def read() -> str:
        nonlocal now_s
        now_s += _EVERY_S
        return page.text([], is_open=False)

    return judge(name, read, JOBS_MS_MAX)


def judge(name: str, read: Callable[[], str], limit_ms: float) -> Goal:
    """Judge the median CPU time of a call; the first call is not counted."""
    check_page(read())
    cpu_ms, wall_ms = [], []
    for _ in range(_READINGS):
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        page = read()
        cpu_ms.append(1e3 * (time.process_time() - cpu_s))
        wall_ms.append(1e3 * (time.perf_counter() - wall_s))
        check_page(page)
    note = f"{statistics.median(wall_ms):.1f} ms until the page is there"
    return at_most(name, statistics.median(cpu_ms), limit_ms, "ms CPU", note)


def check_page(page: str) -> None:
    """Raise AssertionError for a page for which the database did not answer in time."""
    if "trainshed_store_up 0" in page:
        raise AssertionError("the database did not answer the scrape in time")


def count_series(store: Store, name: str) -> Goal:
    """Count the series of a page after every project has submitted and ended jobs."""
    counters = Counters()
    for project in (f"p{number}" for number in range(_MANY_PROJECTS)):
        for dialect in Dialect:
            counters.submitted(project, dialect.value)
        for state, cause in (("SUCCEEDED", "none"), ("FAILED", "program"), ("FAILED", "infra")):
            counters.finished(project, state, cause)
    lines = make_page(store, counters)().splitlines()
    return at_most(name, sum(not line.startswith("#") for line in lines), SERIES_MAX, "series")


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"open": (1000, 20), "ended": (100_000, 50), "queued": (50_000, 100)},
)
