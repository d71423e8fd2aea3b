"""Measures windows and searches of one long log, beside ``tail``, ``sed`` and ``grep``.

    python -m benchmarks console-logs [--lines 1000000] [--submits 2000]

A simulated server holds the log of one job: lines of three replicas in segments.  The end is read
cold, by a server that has just started, and warm; then lines at random numbers, stamps and shares;
then a text and an expression are searched in all lines.  The peers read the same files.  At the end
submits are counted while a client searches.
"""

import argparse
import random
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from benchmarks.harness import Benchmark, Goal, Json, Report, at_least, at_most, tell
from benchmarks.service.client import Client
from benchmarks.service.documents import PROJECT
from benchmarks.service.log_files import attempt_log, write_log
from benchmarks.service.measures import submit, submits
from benchmarks.service.servers import Server, simulated_at
from trainshed.model.log_line import LogLine

#: The goals on two cores without other work, in seconds.
COLD_S_MAX, WARM_S_MAX, LINE_S_MAX = 1.0, 0.3, 0.1
FIRST_HIT_S_MAX, LITERAL_S_MAX, EXPRESSION_S_MAX = 0.5, 2.0, 3.0
SUBMITS_MIN = 0.95
COUNT = 200
REPLICAS = 3
#: GPUs of each simulated node: all submitted jobs start.
GPUS = 64
#: The text stands in this share of the lines.
WITH_TEXT = 10_000
TEXT = "loss = nan"
EXPRESSION = r"loss = (nan|inf)\b.*rank \d"

T = TypeVar("T")


def measure(args: argparse.Namespace) -> Report:
    """Measure all on one data directory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with simulated_at(folder, gpus=GPUS) as server, server.client() as client:
            path, uid = find_job(client, submit(client, 0))
        tell(f"writing {args.lines:,} lines")
        log = attempt_log(folder, uid)
        write_log(log, lines_of(args.lines))
        cold_s = [measure_cold(folder, path, args.lines) for _ in range(args.rounds)]
        goals = [at_most("the end, index cold", statistics.median(cold_s), COLD_S_MAX, "s")]
        with simulated_at(folder, gpus=GPUS) as server:
            goals += measure_windows(server, path, args)
            goals += measure_searches(server, path, args)
            goals += measure_peers(log, args)
            goals.append(measure_submits(server, path, args.submits))
        size = sum(file.stat().st_size for file in log.iterdir())
    return Report(goals=goals, data={"bytes": size, "lines": args.lines, "cold_s": cold_s})


def find_job(client: Client, job: str) -> tuple[str, str]:
    """Return the native path of a job, and its uid."""
    path = f"/trainshed/v1/projects/{PROJECT}/jobs/{job}"
    return path, str(client.call("GET", path)["uid"])


def lines_of(count: int) -> Iterator[LogLine]:
    """Yield the lines of three replicas in turn, a microsecond apart."""
    begin_ns = time.time_ns() - count * 1000
    for number in range(1, count + 1):
        rank = number % REPLICAS
        yield LogLine(begin_ns + 1000 * number, f"workerpool{rank}-0", text_of(number, rank))


def text_of(number: int, rank: int) -> str:
    """Return the text of a line: a training step, at the usual length."""
    loss = TEXT if number % WITH_TEXT == 0 else f"loss = {100 / number:.6f}"
    return f"step {number}: {loss}, accuracy 0.{number % 991:03d}, 412.3 examples/s, rank {rank}"


def measure_cold(folder: Path, path: str, lines: int) -> float:
    """Return the seconds of the first window of a server that has just started."""
    with simulated_at(folder, gpus=GPUS) as server, server.client() as client:
        client.call("GET", path)  # the native API is made at its first request
        took_s, window = seconds_of(lambda: client.call("GET", f"{path}/logs:window?end=true"))
    if window["total"] != lines:
        raise SystemExit(f"the log must have {lines:,} lines, got {window['total']:,}")
    return took_s


def measure_windows(server: Server, path: str, args: argparse.Namespace) -> list[Goal]:
    """Return the goals of windows at the end and anywhere, with a warm index."""
    draw = random.Random(1)  # noqa: S311  # not for secrets
    with server.client() as client:

        def read(query: str) -> Json:
            return client.call("GET", f"{path}/logs:window?count={COUNT}&{query}")

        stamp = int(read("line=1")["lines"][0][1])
        last = int(read("end=true")["lines"][-1][1])
        queries: dict[str, tuple[Callable[[], str], float]] = {
            "the end, index warm": (lambda: "end=true", WARM_S_MAX),
            "any line": (lambda: f"line={draw.randint(1, args.lines)}", LINE_S_MAX),
            "any time": (lambda: f"stamp={draw.randint(stamp, last)}", LINE_S_MAX),
            "any share": (lambda: f"share={draw.random()}", LINE_S_MAX),
            "any line of one replica": (
                lambda: f"row={draw.randint(1, args.lines // REPLICAS)}&task=workerpool1-0",
                LINE_S_MAX,
            ),
        }
        read("task=workerpool1-0")
        return [
            at_most(
                f"{name}, p95",
                quantile([seconds_of(partial(read, make()))[0] for _ in range(args.windows)]),
                limit,
                "s",
            )
            for name, (make, limit) in queries.items()
        ]


def measure_searches(server: Server, path: str, args: argparse.Namespace) -> list[Goal]:
    """Return the goals of searching a text and an expression in all lines."""
    expected = args.lines // WITH_TEXT
    half = args.lines // WITH_TEXT // 2 * WITH_TEXT
    middle = f"q={quote(f'step {half}: ')}"
    literal = [search(server, path, f"q={quote(TEXT)}", expected) for _ in range(args.rounds)]
    one = [search(server, path, middle, 1) for _ in range(args.rounds)]
    expression = f"q={quote(EXPRESSION)}&regex=true"
    matches = [search(server, path, expression, expected) for _ in range(args.rounds)]
    return [
        at_most("text in the middle, first hit", median(one, 0), FIRST_HIT_S_MAX, "s"),
        at_most(f"text, first of {expected} hits", median(literal, 0), FIRST_HIT_S_MAX, "s"),
        at_most(f"text, all {expected} hits", median(literal, 1), LITERAL_S_MAX, "s"),
        at_most(f"expression, all {expected} hits", median(matches, 1), EXPRESSION_S_MAX, "s"),
    ]


def search(server: Server, path: str, query: str, expected: int) -> tuple[float, float]:
    """Return the seconds to the first hit and to the end of a search.

    Raises SystemExit unless all expected hits came.
    """
    began, first_s, end = time.monotonic(), 0.0, {}
    with server.client() as client:
        for end in client.lines(f"{path}/logs:search?limit=10000&{query}"):
            if "n" in end:
                first_s = first_s or time.monotonic() - began
    took_s = time.monotonic() - began
    if end != {"done": True, "hits": expected, "complete": True}:
        raise SystemExit(f"the search must return {expected} hits, got {end}")
    return first_s, took_s


def measure_peers(log: Path, args: argparse.Namespace) -> list[Goal]:
    """Return the seconds of the programs that read the same files; they have no goals."""
    files = sorted(map(str, log.iterdir()))
    peers = {
        f"tail -n {COUNT} of the last file": ["tail", "-n", str(COUNT), files[-1]],
        "sed -n Np of all files": ["sed", "-n", f"{args.lines // 2}p", *files],
        "grep -c of the text": ["grep", "-hc", TEXT, *files],
        "grep -cE of the expression": ["grep", "-hcE", EXPRESSION.replace(r"\d", "[0-9]"), *files],
    }
    return [
        at_most(f"peer: {name}", min(run_peer(words) for _ in range(args.rounds)), None, "s")
        for name, words in peers.items()
    ]


def run_peer(words: list[str]) -> float:
    """Return the seconds that a program takes."""
    return seconds_of(lambda: subprocess.run(words, capture_output=True, check=True))[0]


def measure_submits(server: Server, path: str, count: int) -> Goal:
    """Return the rate of submits while a client searches, as a share of the rate without."""
    submits(server, count)
    plain, searching = [], []
    for _ in range(3):
        plain.append(submits(server, count).per_s)
        with searched(server, path):
            searching.append(submits(server, count).per_s)
    share = statistics.median(searching) / statistics.median(plain)
    note = f"{statistics.median(plain):.0f} submits/s without"
    return at_least("submits while one searches", share, SUBMITS_MIN, "x", note)


class searched:  # noqa: N801 - a context manager
    """Searches an expression again and again in another thread."""

    def __init__(self, server: Server, path: str) -> None:
        self._thread = threading.Thread(target=self._search, args=(server, path))
        self._is_over = threading.Event()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """End after the current search."""
        self._is_over.set()
        self._thread.join()

    def _search(self, server: Server, path: str) -> None:
        while not self._is_over.is_set():
            with server.client() as client:
                for _ in client.lines(f"{path}/logs:search?regex=true&q={quote(EXPRESSION)}"):
                    if self._is_over.is_set():
                        break


def seconds_of(call: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds that a call takes, and its result."""
    began = time.monotonic()
    result = call()
    return time.monotonic() - began, result


def quantile(values: list[float]) -> float:
    """Return the value that 95 % do not exceed."""
    return sorted(values)[int(0.95 * (len(values) - 1))]


def median(pairs: list[tuple[float, float]], index: int) -> float:
    """Return the median of one part of the pairs."""
    return statistics.median(pair[index] for pair in pairs)


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={
        "lines": (1_000_000, 20_000),
        "windows": (100, 3),
        "rounds": (3, 1),
        "submits": (2000, 20),
    },
)
