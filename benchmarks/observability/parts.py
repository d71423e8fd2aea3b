"""Measures what observability costs: samples of usage, metrics, traces, sums of usage.

    python -m benchmarks observability [--only PART ...] [--against SRC]

``--against`` is the ``src`` folder of an older version, with which some parts compare this one.
Each part is a module beside this one with a ``BENCHMARK``; its sizes are options of this one, with
the name of the part before them.
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Final

from benchmarks.harness import Benchmark, Report, tell

#: The modules, in the order of their rows.
PARTS: Final = ("samples", "nodes", "curves", "traces", "usage_year", "scrapes", "progress", "rest")


def _benchmark(part: str) -> Benchmark:
    benchmark: Benchmark = import_module(f"benchmarks.observability.{part}").BENCHMARK
    return benchmark


def measure(args: argparse.Namespace) -> Report:
    """Measure the parts that ``--only`` names, or else all."""
    report = Report()
    for part in args.only or PARTS:
        tell(f"measuring {part}")
        benchmark = _benchmark(part)
        names = [size.replace("-", "_") for size in benchmark.sizes]
        sizes = {name: getattr(args, f"{part}_{name}") for name in names}
        measured = benchmark.measure(argparse.Namespace(**sizes, against=args.against))
        report.goals += measured.goals
        report.left_out |= measured.left_out
        report.lines += measured.lines
        report.data[part] = measured.data
    return report


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=PARTS, help="default: all parts")
    parser.add_argument("--against", type=Path, metavar="SRC", help="an older version to compare")


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={
        f"{part}-{size}".replace("_", "-"): values
        for part in PARTS
        for size, values in _benchmark(part).sizes.items()
    },
    add_options=_add_options,
)
