"""Measures the service: submits per second, reads while a long queue waits, and first lines.

This process sends the load over keep-alive HTTP to servers in other processes.  The figures of
other projects are those of their documentation; the benchmark does not run their programs.

    python -m benchmarks service [--quick] [--skip postgres]
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import charts
from benchmarks.harness import Benchmark, Goal, Report, at_least, at_most, tell
from benchmarks.service import measures
from benchmarks.service.measures import Cost, Rate
from benchmarks.service.servers import postgres, postgres_programs, simulated

#: GPUs of each of the 1,000 nodes: enough for all jobs of a rate; enough for exactly 5,000 jobs.
ROOMY, FULL = 8, 5
#: Jobs per second in the documentation of a batch system and of the tests of two schedulers.
PEERS = {
    "Slurm's documented 500/s": 500,
    "Kueue's own test, 43/s": 43,
    "KAI's scale test, 10/s": 10,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amounts to measure."""

    nodes: int = 1000
    rate_jobs: int = 1500
    warm_jobs: int = 200
    rounds: int = 3
    running: int = 5000
    queues: tuple[int, ...] = (1000, 5000, 10_000, 20_000, 50_000)
    submits: int = 250
    reads: int = 200
    gang: int = 512
    list_rounds: int = 5
    local_jobs: int = 10


WHOLE = Size()
QUICK = Size(rate_jobs=400, queues=(1000, 5000), submits=100, reads=60, local_jobs=3)
DRY = Size(
    nodes=4,
    rate_jobs=8,
    warm_jobs=0,
    rounds=1,
    running=20,
    queues=(1, 2),
    submits=4,
    reads=2,
    gang=3,
    list_rounds=1,
    local_jobs=1,
)


@dataclass(slots=True, kw_only=True)
class Measured:
    """The results of the parts of the benchmark."""

    rates: dict[str, Rate] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def add_rate(measured: Measured, database: str, rate: Rate, least: float) -> None:
    """Add the rates of a database, and their goals; ``least`` is the goal in jobs per second."""
    tell(f"{database}: {rate.accepted:.0f} accepted and {rate.placed:.0f} placed a second")
    measured.rates[database] = rate
    name = f"{database}, {measures.CLIENTS} clients"
    measured.goals += [
        at_least(f"accepted and stored, {name}", rate.accepted, least, "/s"),
        at_least(f"placed, {name}", rate.placed, least, "/s"),
    ]


def measure_rates(measured: Measured, size: Size, skip: Sequence[str]) -> None:
    """Measure submits that are accepted and placed, on each database."""
    amounts = size.rate_jobs, size.warm_jobs, size.rounds
    with simulated(gpus=ROOMY, nodes=size.nodes) as server:
        add_rate(measured, "SQLite", measures.rate(server, *amounts), 300)
    programs = postgres_programs()
    if "postgres" in skip or programs is None:
        reason = "as asked" if "postgres" in skip else "no server in /usr/lib/postgresql"
        measured.left_out["PostgreSQL"] = reason
        return
    with (
        postgres(programs) as url,
        simulated(gpus=ROOMY, nodes=size.nodes, database=url) as server,
    ):
        add_rate(measured, "PostgreSQL", measures.rate(server, *amounts), 500)


def measure_scale(measured: Measured, size: Size) -> None:
    """Measure a server with a full fleet and a long queue."""
    with simulated(gpus=FULL, nodes=size.nodes) as server:
        measures.fill(server, size.running)
        tell(f"{size.running} jobs run")
        listed_s = measures.list_jobs_s(server, size.running, size.list_rounds)
        measured.goals.append(
            at_most(f"jobs list of {size.running}, as a process", listed_s, 0.5, "s")
        )
        for queued in size.queues:
            measured.costs.append(measures.cost(server, queued, size.submits, size.rounds))
            tell(f"{queued} jobs wait: {measured.costs[-1].cpu_ms:.2f} ms of CPU a submit")
        first, last = measured.costs[0].cpu_ms, measured.costs[-1].cpu_ms
        longest = max(size.queues)
        beside = f"beside {longest} queued"
        measured.goals.append(
            at_most(
                f"cost of a submit, {beside} over {size.queues[0]}",
                last / (first or 1.0),
                1.25,
                "times",
            )
        )
        for name, load in measures.reads(server, size.reads).items():
            measured.goals.append(
                at_most(f"{name}, p99, {beside}", load.quantile_ms(0.99), 250, "ms")
            )
        taken_s = measures.gang_s(server, size.gang)
        measured.goals.append(at_most(f"gang of {size.gang} placed, {beside}", taken_s, 1, "s"))
        memory_mb = server.memory_mb()
        measured.goals += [
            at_most(
                f"memory for each of {size.running} running", memory_mb / size.running, 1, "MB"
            ),
            at_most("memory in all", memory_mb, 400, "MB"),
        ]


def measure_local(measured: Measured, size: Size) -> None:
    """Measure the real server on this machine."""
    times = measures.on_this_machine(size.local_jobs, size.rounds)
    middle = measures.median(times.first_line_s)
    measured.goals += [
        at_most("submit to first user line, p50", middle, 1, "s"),
        at_most("first start to ready", times.first_start_s, 2, "s"),
        at_most("start to ready", times.start_s, 2, "s"),
        at_most("memory after the start", times.memory_mb, 120, "MB"),
    ]


def lines(measured: Measured) -> Iterator[str]:
    """Yield the rates beside those of other projects, and the cost of a submit by queue length."""
    yield "submits over HTTP, and the share of what others document"
    for database, rate in measured.rates.items():
        rates = f"accepted {rate.accepted:5.0f}/s   placed {rate.placed:5.0f}/s"
        spent = f"p99 {rate.p99_ms:4.0f} ms   {rate.cpu_ms:.2f} ms of CPU each"
        yield f"  {database:12} {rates}   {spent}"
        for peer, per_s in PEERS.items():
            yield f"  {'':12} {rate.placed / per_s:5.1f} of {peer}"
    yield "\ncost of a submit, by the jobs that wait already"
    widest = max(cost.cpu_ms for cost in measured.costs) or 1.0
    for cost in measured.costs:
        bar = "#" * max(1, round(40 * cost.cpu_ms / widest))
        yield f"  {cost.queued:6} {cost.cpu_ms:6.2f} ms of CPU {cost.p50_ms:5.0f} ms p50  {bar}"
    yield ""


def measure(args: argparse.Namespace) -> Report:
    """Measure rates on each database, reads while a long queue waits, and the real server."""
    size = DRY if args.dry else QUICK if args.quick else WHOLE
    measured = Measured()
    measure_rates(measured, size, [*args.skip, *(["postgres"] if args.dry else [])])
    measure_scale(measured, size)
    measure_local(measured, size)
    if args.image and (reason := charts.draw_submit_cost(measured.costs, args.image)):
        measured.left_out["picture"] = reason
    return Report(
        goals=measured.goals,
        left_out=measured.left_out,
        lines=list(lines(measured)),
        data={
            "rates": {name: asdict(rate) for name, rate in measured.rates.items()},
            "costs": [asdict(cost) for cost in measured.costs],
        },
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the amounts to measure and for the picture."""
    parser.add_argument("--quick", action="store_true", help="use smaller amounts")
    parser.add_argument("--skip", action="append", default=[], help="leave a database out")
    parser.add_argument("--image", type=Path, help="the file in which to draw the cost of a submit")


BENCHMARK = Benchmark(description=__doc__, measure=measure, add_options=add_options)
