"""What the service bears: submits a second, reads beside a long queue, the way to a first line.

The load comes from this process over keep-alive HTTP, the servers are processes of their own.  The
figures of other projects are those that they document; nothing of theirs is measured here.

    python benchmarks/service.py [--quick] [--format json] [--skip postgres]
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import service_measures as measures
from service_chart import draw
from service_measures import Cost, Rate
from service_servers import postgres, postgres_programs, simulated

from launch import Figure, at_least, at_most, verdict

ROOT = Path(__file__).parent.parent
#: GPUs of each of the 1,000 nodes: room for every job of a rate; none but for 5,000 jobs.
ROOMY, FULL = 8, 5
RUNNING = 5000
GANG = 512
#: Jobs a second that others document: a batch system's simple jobs, and two schedulers' own tests.
PEERS = {
    "Slurm's documented 500/s": 500,
    "Kueue's own test, 43/s": 43,
    "KAI's scale test, 10/s": 10,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    rate_jobs: int
    running: int
    queues: tuple[int, ...]
    submits: int
    reads: int
    local_jobs: int


WHOLE = Size(
    rate_jobs=1500,
    running=RUNNING,
    queues=(1000, 5000, 10_000, 20_000, 50_000),
    submits=250,
    reads=200,
    local_jobs=10,
)
QUICK = Size(
    rate_jobs=400, running=RUNNING, queues=(1000, 5000), submits=100, reads=60, local_jobs=3
)


@dataclass(slots=True, kw_only=True)
class Report:
    """All that was found."""

    rates: dict[str, Rate] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def tell(text: str) -> None:
    """Say what goes on, beside the table."""
    print(f"  {text}", file=sys.stderr, flush=True)


def add_rate(report: Report, database: str, rate: Rate, least: float) -> None:
    """The promises of a database."""
    tell(f"{database}: {rate.accepted:.0f} accepted and {rate.placed:.0f} placed a second")
    report.rates[database] = rate
    name = f"{database}, {measures.CLIENTS} clients"
    report.figures += [
        at_least(f"accepted and stored, {name}", rate.accepted, least, "/s"),
        at_least(f"placed, {name}", rate.placed, least, "/s"),
    ]


def measure_rates(report: Report, size: Size, skip: Sequence[str]) -> None:
    """Submits that are accepted and placed, on each database."""
    with simulated(gpus=ROOMY) as server:
        add_rate(report, "SQLite", measures.rate(server, size.rate_jobs), 300)
    programs = postgres_programs()
    if "postgres" in skip or programs is None:
        reason = "left out" if "postgres" in skip else "no server in /usr/lib/postgresql"
        report.skipped.append(f"PostgreSQL: {reason}")
        return
    with postgres(programs) as url, simulated(gpus=ROOMY, database=url) as server:
        add_rate(report, "PostgreSQL", measures.rate(server, size.rate_jobs), 500)


def measure_scale(report: Report, size: Size) -> None:
    """A full fleet and a long queue."""
    with simulated(gpus=FULL) as server:
        measures.fill(server, size.running)
        tell(f"{size.running} jobs run")
        listed_s = measures.list_jobs_s(server, size.running)
        report.figures.append(
            at_most(f"jobs list of {size.running}, as a process", listed_s, 0.5, "s")
        )
        for queued in size.queues:
            report.costs.append(measures.cost(server, queued, size.submits))
            tell(f"{queued} jobs wait: {report.costs[-1].cpu_ms:.2f} ms of CPU a submit")
        first, last = report.costs[0].cpu_ms, report.costs[-1].cpu_ms
        longest = max(size.queues)
        beside = f"beside {longest} queued"
        report.figures.append(
            at_most(f"cost of a submit, {beside} over 1000", last / first, 1.25, "times")
        )
        for name, load in measures.reads(server, size.reads).items():
            report.figures.append(
                at_most(f"{name}, p99, {beside}", load.quantile_ms(0.99), 250, "ms")
            )
        taken_s = measures.gang_s(server, GANG)
        report.figures.append(at_most(f"gang of {GANG} placed, {beside}", taken_s, 1, "s"))
        memory_mb = server.memory_mb()
        report.figures += [
            at_most(
                f"memory for each of {size.running} running", memory_mb / size.running, 1, "MB"
            ),
            at_most("memory in all", memory_mb, 400, "MB"),
        ]


def measure_local(report: Report, size: Size) -> None:
    """The real server, on this machine."""
    times = measures.on_this_machine(size.local_jobs)
    middle = measures.median(times.first_line_s)
    report.figures += [
        at_most("submit to first user line, p50", middle, 1, "s"),
        at_most("first start to ready", times.first_start_s, 2, "s"),
        at_most("start to ready", times.start_s, 2, "s"),
        at_most("memory after the start", times.memory_mb, 120, "MB"),
    ]


def show(report: Report, load: float) -> None:
    """The tables, then one line a promise."""
    cores = os.cpu_count()
    print(f"on {cores} processors, whose load was {load:.1f} before\n")
    print("submits over HTTP, and the share of what others document")
    for database, rate in report.rates.items():
        rates = f"accepted {rate.accepted:5.0f}/s   placed {rate.placed:5.0f}/s"
        spent = f"p99 {rate.p99_ms:4.0f} ms   {rate.cpu_ms:.2f} ms of CPU each"
        print(f"  {database:12} {rates}   {spent}")
        for peer, per_s in PEERS.items():
            print(f"  {'':12} {rate.placed / per_s:5.1f} of {peer}")
    print("\ncost of a submit, by the jobs that wait already")
    widest = max(cost.cpu_ms for cost in report.costs)
    for cost in report.costs:
        bar = "#" * max(1, round(40 * cost.cpu_ms / widest))
        print(f"  {cost.queued:6} {cost.cpu_ms:6.2f} ms of CPU {cost.p50_ms:5.0f} ms p50  {bar}")
    print()
    for figure in report.figures:
        print(verdict(figure, 48))
    for reason in report.skipped:
        print(f"  SKIP  {reason}")


def main() -> int:
    """Measure, print, and say by the exit code whether every promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--skip", action="append", default=[], help="leave a database out")
    parser.add_argument("--image", type=Path, default=ROOT / "runs" / "submit-cost.png")
    args = parser.parse_args()
    size = QUICK if args.quick else WHOLE
    load = os.getloadavg()[0]
    report = Report()
    measure_rates(report, size, args.skip)
    measure_scale(report, size)
    measure_local(report, size)
    if skipped := draw(report.costs, args.image):
        report.skipped.append(skipped)
    document = {"load": load, **asdict(report)}
    (ROOT / "runs").mkdir(exist_ok=True)
    (ROOT / "runs" / "service.json").write_text(json.dumps(document, indent=1))
    if args.format == "json":
        print(json.dumps(document, indent=1))
    else:
        show(report, load)
    return 0 if all(figure.holds for figure in report.figures) else 1


if __name__ == "__main__":
    sys.exit(main())
