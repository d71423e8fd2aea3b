"""Measures the server's start, compared with importing the libraries that it needs.

    python -m benchmarks startup [--rounds 7]

A start lasts from the start of the process to the first answer of ``/healthz``.  Starts take turns
with ``import fastapi, sqlalchemy, uvicorn, grpc`` on the same machine.  The benchmark also measures
``trainshed serve --run -- true`` from its start to its end.  All of them read compiled modules; the
first start, which may compile modules, does not count.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import TRAINSHED, Benchmark, Report, at_most
from benchmarks.service.servers import local

BARE = "import fastapi, sqlalchemy, uvicorn, grpc"
SHARE_MAX = 1.5
#: Seconds that a throw-away server may take for a command that does nothing.
THROW_AWAY_S_MAX = 2.5


def measure(args: argparse.Namespace) -> Report:
    """Measure the server's start in turns with the imports, then throw-away servers."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if not args.dry:  # the dry form may read modules that are compiled already
            os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        bare, serve = measured(Path(folder) / "data", args.rounds, args.warm)
        throw_away = [throw_away_s() for _ in range(args.warm + args.rounds)][args.warm :]
    share = statistics.median(serve) / statistics.median(bare)
    median = statistics.median(throw_away)
    return Report(
        goals=[
            at_most("start over imports", share, SHARE_MAX, "times"),
            at_most("serve --run -- true", median, THROW_AWAY_S_MAX, "s"),
        ],
        lines=[
            f"  {BARE:<42} {spread(bare)}",
            f"  {'trainshed serve, to its first answer':<42} {spread(serve)}",
            f"  {'trainshed serve --run -- true':<42} {spread(throw_away)}",
        ],
        data={"bare_s": bare, "start_s": serve, "throw_away_s": throw_away},
    )


def throw_away_s() -> float:
    """Return the seconds of a throw-away server with a command that does nothing."""
    began = time.monotonic()
    subprocess.run([TRAINSHED, "serve", "--run", "--", "true"], check=True)
    return time.monotonic() - began


def measured(folder: Path, rounds: int, warm: int) -> tuple[list[float], list[float]]:
    """Measure imports and starts in turns, on an existing data directory."""
    folder.mkdir()
    pairs = [(imports_s(), start_s(folder)) for _ in range(warm + rounds)][warm:]
    return [bare for bare, _ in pairs], [serve for _, serve in pairs]


def imports_s() -> float:
    """Return the seconds of the imports, with the interpreter's start."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", BARE], check=True)
    return time.monotonic() - began


def start_s(folder: Path) -> float:
    """Return the seconds from a server's start to its first answer."""
    with local(folder) as server:
        return server.started_s


def spread(times: list[float]) -> str:
    """Format the median, the fastest and the slowest value."""
    return f"{statistics.median(times):6.3f} s  ({min(times):.3f} to {max(times):.3f})"


BENCHMARK = Benchmark(
    description=__doc__, measure=measure, sizes={"rounds": (7, 1), "warm": (1, 0)}
)
