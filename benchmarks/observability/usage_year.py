"""Measures sums of the use of machines over a year of many jobs, on both databases.

    python -m benchmarks observability --only usage_year [--usage-year-jobs 100000]

Rows of jobs are written into the store as the server writes them; a job lasts from minutes to three
days.  They ran on 256 GPUs of 32 nodes.  The slowest of the keys counts.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Table

from benchmarks.harness import Benchmark, Goal, Report, at_most
from benchmarks.service.servers import postgres, postgres_programs
from trainshed.model.time_use import HELD_USES
from trainshed.planning.usage_days import today
from trainshed.service.costs.usage_report import REPORT_KEYS, ReportQuery, UsageReports
from trainshed.store.bulk import add_rows
from trainshed.store.opening import Store, open_store
from trainshed.store.tables import ATTEMPT_USAGE, MACHINE_USAGE

REPORT_S_MAX: Final = 1.0
_DAYS: Final = 365
_NODES: Final = 32
_TYPES: Final = (
    ("n1-standard-8", 0, 8.0),
    ("n1-standard-8 with 1 NVIDIA_TESLA_T4", 1, 8.0),
    ("a2-highgpu-1g", 1, 12.0),
    ("a2-highgpu-8g", 8, 96.0),
    ("my-own", 4, 64.0),
)
_AT_ONCE: Final = 5_000


def measure(args: argparse.Namespace) -> Report:
    """Measure SQLite, and PostgreSQL where it is installed."""
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'trainshed.db')}"
        report.goals.append(measure_year(url, "SQLite", args.jobs))
    if programs := postgres_programs():
        with postgres(programs) as url:
            report.goals.append(measure_year(url, "PostgreSQL", args.jobs))
    else:
        report.left_out["PostgreSQL"] = "not installed (apt install postgresql)"
    return report


def measure_year(url: str, database: str, jobs: int) -> Goal:
    """Measure the slowest report of a year."""
    store = open_store(url)
    try:
        last_day = today(store.now())
        fill(store, jobs, last_day)
        seconds = {by: _time_report(store, by) for by in REPORT_KEYS}
        cpu_s = _cpu_of_report(store, "user")
    finally:
        store.close()
    slowest = max(seconds, key=lambda by: seconds[by])
    note = ", ".join(f"{by} {value:.2f}" for by, value in seconds.items())
    note += f"; CPU of the server for users {cpu_s:.2f} s"
    name = f"usage of a year, {jobs:,} jobs, {database}"
    return at_most(name, seconds[slowest], REPORT_S_MAX, "s", note)


def _time_report(store: Store, by: str) -> float:
    query = ReportQuery(by=by, since=f"{_DAYS}d")
    times = []
    for _ in range(3):
        began = time.monotonic()
        assert UsageReports(store).report(query).total.jobs  # noqa: S101
        times.append(time.monotonic() - began)
    return min(times)


def _cpu_of_report(store: Store, by: str) -> float:
    """Return the CPU seconds of a report, without the work of PostgreSQL's own processes."""
    began = time.process_time()
    UsageReports(store).report(ReportQuery(by=by, since=f"{_DAYS}d"))
    return time.process_time() - began


def fill(store: Store, jobs: int, last_day: int) -> None:
    """Write the rows of so many jobs of 20 projects and 300 users."""
    rows = list(_rows(jobs, last_day))
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        _add(store, ATTEMPT_USAGE, some)
        _add(store, MACHINE_USAGE, [part for row in some for part in _parts(row)])


def _add(store: Store, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    store._db.write(lambda tx: add_rows(tx, table, rows))  # noqa: SLF001


def _parts(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of each GPU of a row, or of its node."""
    gpus: int = row["gpus"]
    first = row["uid"] * 5 % _NODES
    for number in range(max(gpus, 1)):
        share = 1 / max(gpus, 1)
        yield {
            "engine": "local",
            "node": f"node-{first:02}.example",
            "gpu": f"GPU-{first:08x}-5d1c-4f3e-8a2b-{number:012x}" if gpus else "",
            "machine_type": row["machine_type"],
            "gpus": min(gpus, 1),
            "vcpus": share * row["vcpus"],
            "currency": row["currency"],
            "hour_price": share * (row["hour_price"] or 0.0),
            **{name: row[name] for name in ("day", "uid", "attempt", "project", "creator")},
            "gpu_type": "NVIDIA_A100_80GB" if gpus else "",
            "gpu_index": number if gpus else None,
            **{f"{use}_s": row[f"{use}_s"] for use in HELD_USES},
            "energy_j": share * row["energy_j"] if gpus else None,
        }


def _rows(jobs: int, last_day: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(35)  # noqa: S311 - sizes of jobs
    for uid in range(1, jobs + 1):
        days = draw.choices((1, 2, 3), (85, 12, 3))[0]
        first = last_day - draw.randrange(_DAYS - 3) - 2
        name, gpus, vcpus = draw.choice(_TYPES)
        creator, project = f"user-{draw.randrange(300)}", f"project-{draw.randrange(20)}"
        for day in range(first, first + days):
            yield _row(uid, day, (name, gpus, vcpus), (project, creator), draw)


def _row(
    uid: int,
    day: int,
    machines: tuple[str, int, float],
    owner: tuple[str, str],
    draw: random.Random,
) -> dict[str, Any]:
    name, gpus, vcpus = machines
    price = None if name == "my-own" else 1.5 * max(gpus, 1)
    return {
        "uid": uid,
        "attempt": 1,
        "machine_type": name,
        "day": day,
        "project": owner[0],
        "creator": owner[1],
        "job_id": f"job-{uid}",
        "gpus": gpus,
        "vcpus": vcpus,
        "placed_ns": day * 86_400 * 10**9,
        "end_ns": day * 86_400 * 10**9 + 1,
        **{f"{use}_s": draw.uniform(0, 5_000) for use in HELD_USES},
        "energy_j": draw.uniform(0, 1e6) if gpus else None,
        "hour_price": price,
        "currency": "" if price is None else "USD",
        "price_source": "" if price is None else "Compute Engine's list of us-central1",
        "price_date": "" if price is None else "2026-07-30",
        "update_ns": 1,
    }


BENCHMARK = Benchmark(
    description=__doc__ or "",
    measure=measure,
    sizes={"jobs": (100_000, 300)},
)
