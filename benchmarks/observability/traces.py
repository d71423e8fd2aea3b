"""Measures what traces cost: submits with a collector, with one that is away, and without.

    python -m benchmarks observability --only traces [--against SRC]

With ``--against`` also without traces in an older version, as its ``src`` folder.
Each round asks every server in turn, each time another one first, and a ratio is the median of
those of the rounds: other work on the machine then slows all servers alike.  The collector runs in
a process of its own.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks.harness import ROOT, Benchmark, Goal, Report, at_least, at_most, tell
from benchmarks.service import measures
from benchmarks.service.servers import Server, simulated

#: The name of the older version.
BEFORE: Final = "before"
#: Nothing listens on the port of discard.
AWAY: Final = "http://127.0.0.1:9/v1/traces"
#: Asks a new process whether a server without traces has loaded OpenTelemetry.
_LOADED: Final = """
import sys
import trainshed.app.application, trainshed.cli.admin.server
print(sum(name.startswith("opentelemetry.") for name in sys.modules))
"""


def measure(args: argparse.Namespace) -> Report:
    """Measure what is loaded without traces, and submits with and without them."""
    report = Report()
    report.goals.append(at_most("modules of OpenTelemetry without [otel]", _count_loaded(), 0, ""))
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        report.left_out["traces"] = "OpenTelemetry is not installed (trainshed[otel])"
    else:
        sizes = int(args.jobs), int(args.rounds), int(args.nodes)
        report.goals += _measure_submits(*sizes, args.against)
        if args.against is None:
            report.left_out["submits of an older version"] = "give its src folder by --against"
    return report


def _count_loaded() -> float:
    command = [sys.executable, "-c", _LOADED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _measure_submits(jobs: int, rounds: int, nodes: int, against: Path | None) -> Iterator[Goal]:
    with contextlib.ExitStack() as stack:
        urls = {"off": "", "off again": "", "on": stack.enter_context(collecting()), "away": AWAY}
        servers = {
            name: stack.enter_context(simulated(gpus=8, nodes=nodes, traces=url))
            for name, url in urls.items()
        }
        if against is not None:
            older = simulated(gpus=8, nodes=nodes, source=against)
            servers[BEFORE] = stack.enter_context(older)
        for server in servers.values():
            measures.submits(server, jobs // 4)
            measures.settle(server)
        ratios: dict[str, list[float]] = {name: [] for name in servers}
        costs: dict[str, list[float]] = {name: [] for name in servers}
        names = list(servers)
        for number in range(rounds):
            first = number % len(names)
            in_turn = {name: servers[name] for name in (*names[first:], *names[:first])}
            per_s = _measure_round(in_turn, jobs, costs)
            for name, rate in per_s.items():
                ratios[name].append(rate / per_s["off"])
            tell(f"round {number + 1}: {', '.join(f'{n} {r:.0f}/s' for n, r in per_s.items())}")
    base_ms = statistics.median(costs["off"]) or 1.0
    for name, least in (("off again", None), ("on", 0.95), ("away", 0.95)):
        cpu_ms = statistics.median(costs[name])
        yield at_least(
            f"submits a second, traces {name} / off",
            statistics.median(ratios[name]),
            least,
            "",
            f"{cpu_ms:.2f} ms of CPU each, {cpu_ms / base_ms:.2f} of off",
        )
    if against is not None:
        before_ms = statistics.median(costs[BEFORE])
        yield at_least(
            "submits a second, traces off / before",
            1 / statistics.median(ratios[BEFORE]),
            0.98,
            "",
            f"{base_ms:.2f} ms of CPU each, {before_ms:.2f} before",
        )


def _measure_round(
    servers: Mapping[str, Server], jobs: int, costs: Mapping[str, list[float]]
) -> Mapping[str, float]:
    """Return the submits a second of each server; adds their CPU in ms to ``costs``."""
    per_s = {}
    for name, server in servers.items():
        before_s = server.cpu_s()
        per_s[name] = measures.submits(server, jobs).per_s
        measures.settle(server)
        costs[name].append(1000 * (server.cpu_s() - before_s) / jobs)
    return per_s


@contextlib.contextmanager
def collecting() -> Iterator[str]:
    """Start a collector that reads and forgets; yield the URL for traces."""
    command = [sys.executable, "-c", _COLLECTOR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        if child.stdout is None:
            raise AssertionError("the collector prints its port")
        try:
            yield f"http://127.0.0.1:{child.stdout.readline().strip()}/v1/traces"
        finally:
            child.terminate()


_COLLECTOR: Final = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"jobs": (500, 8), "rounds": (8, 1), "nodes": (1000, 4)},
)
