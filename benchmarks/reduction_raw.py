"""What reducers make of a link, without torch and without a peer: for tuning the protocol.

Ranks and reducers sit behind shaped links, or on loopback without `--mbit`.  A row says how long an
all-reduce took, which part of the least possible time that is (eff), and how much faster than a
ring that uses its links completely.  Every first result is compared with the exact sum.

    python benchmarks/reduction_raw.py --workers 4 --reducers 4 --mbit 200 --sizes-mb 1,16,64
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

# one core for each rank, as on a host that computes; read when NumPy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from reduction_crew import Crew, Json, crew
from reduction_rank import RawRank
from reduction_reducers import Reducers, reducers
from reduction_theory import optimum, ring
from shaped_network import LATENCY_MS, network, why_not


@dataclass(frozen=True, kw_only=True)
class Row:
    """All repetitions of one size."""

    size: int
    seconds: Sequence[float]
    right: bool

    @property
    def middle_s(self) -> float:
        """The median."""
        return statistics.median(self.seconds)


def form(crew: Crew, serving: Reducers, *, hybrid: bool, timeout_s: float = 60.0) -> list[Json]:
    """Connect every rank to the reducers, and to each other's own if there are too few."""
    settings = serving.settings()
    own = []
    if hybrid:
        own = [host["address"] for host in crew.ask({"do": "host", "token": settings["token"]})]
    request = {"do": "connect", "world": len(crew.ranks), "epoch": time.time_ns(), "own": own}
    return crew.ask({**request, **settings, "timeout": timeout_s})


def measure(crew: Crew, size: int, args: argparse.Namespace) -> Row:
    """One all-reduce that is checked, then the timed ones."""
    crew.ask({"do": "prepare", "size": size, "dtype": args.dtype})
    crew.together({"do": "go", "count": 1, "parts": args.parts})
    checked = crew.ask({"do": "check"})
    right = (
        all(check["right"] for check in checked) and len({check["hash"] for check in checked}) == 1
    )
    crew.ask({"do": "prepare", "size": size, "dtype": args.dtype})
    go = {"do": "go", "count": args.count, "parts": args.parts}
    seconds = [crew.together(go) / args.count for _ in range(args.reps)]
    return Row(size=size, seconds=seconds, right=right)


def show(row: Row, goodput: float, workers: int, pool: int) -> None:
    """One line; figures of a link only where there is one."""
    spread = f"{1e3 * min(row.seconds):8.1f} to {1e3 * max(row.seconds):8.1f}"
    line = f"  {row.size / 1e6:9.3f} MB {1e3 * row.middle_s:9.2f} ms  ({spread})"
    if goodput < float("inf"):
        unit_s = row.size / goodput
        best = optimum(workers, pool)
        eff, gain = best * unit_s / row.middle_s, ring(workers) * unit_s / row.middle_s
        line += f"  eff {eff:5.3f}  {gain:5.2f} x ring (theory {ring(workers) / best:4.2f})"
    else:
        line += f"  {row.size / row.middle_s / 1e6:8.1f} MB/s"
    print(line + ("" if row.right else "  WRONG SUM"), flush=True)


def run(args: argparse.Namespace) -> bool:
    """Form the group once and measure every size; whether all sums were right."""
    workers, pool = args.workers, args.reducers
    with ExitStack() as stack:
        net = stack.enter_context(network(workers + pool, args.mbit, latency_ms=args.latency_ms))
        ranks = stack.enter_context(crew(net, workers, lambda r: RawRank(r, net.address(r))))
        hosts = range(workers, workers + pool)
        serving = stack.enter_context(reducers(net, hosts, timeout_s=60.0))
        formed = form(ranks, serving, hybrid=pool < workers)
        slowest = max(answer["seconds"] for answer in formed)
        print(f"formed in {1e3 * slowest:.0f} ms: {formed[0]['rates']}", flush=True)
        rows = []
        for size in args.sizes_mb:
            rows.append(measure(ranks, int(size * 1e6), args))
            show(rows[-1], net.goodput, workers, pool)
        print(f"peak memory of a reducer: {serving.peak_mb():.1f} MB" if pool else "")
        ranks.ask({"do": "leave"})
    return all(row.right for row in rows)


def sizes(text: str) -> list[float]:
    """``1,16,64``."""
    return [float(size) for size in text.split(",")]


def main() -> int:
    """Measure and print; the exit code says whether every sum was right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--reducers", type=int, default=4)
    parser.add_argument("--mbit", type=float, help="rate of every link; loopback without it")
    parser.add_argument("--latency-ms", type=float, default=LATENCY_MS, help="of every queue")
    parser.add_argument("--sizes-mb", type=sizes, default=[1.0, 16.0, 64.0])
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--count", type=int, default=1, help="all-reduces in one timing")
    parser.add_argument("--parts", type=int, default=1, help="tensors that are sent at once")
    parser.add_argument("--dtype", default="FLOAT32", choices=["FLOAT32", "FLOAT16", "BFLOAT16"])
    args = parser.parse_args()
    if args.mbit and (reason := why_not()):
        print(f"SKIP  {reason}")
        return 0
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
    return 0 if run(args) else 1


if __name__ == "__main__":
    sys.exit(main())
