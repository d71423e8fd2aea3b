"""Measures how fast a job's log is written, read and searched, and the cost of many readers.

    python -m benchmarks logs [--megabytes 50] [--lines 1000000] [--search-only]

One job prints short lines, a second job one line of many megabytes.  First one reader and then
eight read the log of the second job as a stream, while another client gets the job again and
again.  A filter of one word searches the lines of a third job, and ``grep -i`` the same files.
"""

import argparse
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

from benchmarks.harness import Benchmark, Goal, Report, at_least, at_most
from benchmarks.service.documents import PROJECT, VERTEX
from benchmarks.service.recovery import await_state, job
from benchmarks.service.servers import Server, local

#: The goals on two cores without other work; for short lines, the number of lines decides.
WRITTEN_MB_S_MIN, READ_MB_S_MIN, SHORT_MB_S_MIN = 4.0, 20.0, 4.0
PEAK_MB_MAX, OTHERS_S_MAX = 250.0, 0.5
#: The goals of a search for a word in a million lines: seconds, and times those of ``grep -i``.
SEARCH_S_MAX, SEARCH_TIMES_GREP_MAX = 2.0, 20.0
WORD, WITH_WORD = "NeedleWord", 10
LINE = 100
#: Switch off the limit of the log's rate.
CONFIG = "[limits]\nlog_bytes_per_s_max = 0\n"


def measure(args: argparse.Namespace) -> Report:
    """Measure writing and reading, unless ``--search-only`` is given, then searching."""
    goals = [] if args.search_only else measured(int(args.megabytes * 1e6), args.readers)
    return Report(goals=[*goals, *searched(args.lines, args.searches)])


def measured(size: int, readers: int) -> list[Goal]:
    """Return the goals of writing and reading logs on one server."""
    lines = f"print(('x' * {LINE - 1} + chr(10)) * {size // LINE}, end='')"
    one = f"print('x' * {size})"
    goals = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(CONFIG)
        with local(Path(folder)) as server:
            name, took_s = run_job(server, lines)
            rate = size / took_s / 1e6
            goals.append(at_least("log written by one job", rate, WRITTEN_MB_S_MIN, "MB/s"))
            rate, _ = read(server, name, 1)
            goals.append(at_least("log of short lines, read by one", rate, SHORT_MB_S_MIN, "MB/s"))
            name, _ = run_job(server, one)
            for count in (1, readers):
                rate, others_s = read(server, name, count)
                what = f"one line of {size / 1e6:g} MB, read by {count}"
                goals += [
                    at_least(what, rate, READ_MB_S_MIN, "MB/s"),
                    at_most(f"{what}: others wait", others_s, OTHERS_S_MAX, "s"),
                ]
            goals.append(at_most("peak memory of the server", peak_mb(server), PEAK_MB_MAX, "MB"))
    return goals


def searched(lines: int, rounds: int) -> list[Goal]:
    """Return the goals of a filter of one word, on a new server."""
    every = lines // WITH_WORD
    code = (
        f"for n in range(1, {lines} + 1):\n"
        " print(f'Epoch {n // 1000} step {n}: loss=0.{n % 997:03d} accuracy=0.{n % 991:03d}'"
        f" + ' {WORD}' * (n % {every} == 0))"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(CONFIG)
        with local(Path(folder)) as server:
            run_job(server, code)
            ours_s = min(search_s(server) for _ in range(rounds))
        grep_s = min(
            seconds_of(
                lambda: subprocess.run(
                    ["grep", "-rihc", WORD, folder], capture_output=True, check=False
                )
            )
            for _ in range(rounds)
        )
    what = f"a word in {lines:,} lines"
    return [
        at_most(what, ours_s, SEARCH_S_MAX, "s"),
        at_most(f"{what}, times grep -i", ours_s / grep_s, SEARCH_TIMES_GREP_MAX, "x"),
    ]


def search_s(server: Server) -> float:
    """Return the seconds in which the filter returns all pages.

    Raises SystemExit unless the pages contain every line with the word.
    """
    document = {
        "resourceNames": [f"projects/{PROJECT}"],
        "filter": WORD.lower(),
        "orderBy": "timestamp desc",
        "pageSize": 1000,
    }
    count, began = 0, time.monotonic()
    with server.client() as client:
        while True:
            page = client.call("POST", "/v2/entries:list", document)
            count += len(page.get("entries", []))
            if not page.get("nextPageToken"):
                break
            document["pageToken"] = page["nextPageToken"]
    if count != WITH_WORD:
        raise SystemExit(f"the filter must return {WITH_WORD} entries, got {count}")
    return time.monotonic() - began


def run_job(server: Server, code: str) -> tuple[str, float]:
    """Run a job to its end; return its name and the seconds since its submit."""
    began = time.monotonic()
    with server.client() as client:
        name = str(client.call("POST", VERTEX, job(0, code))["name"])
    await_state(server, name, "JOB_STATE_SUCCEEDED")
    return name, time.monotonic() - began


def read(server: Server, name: str, readers: int) -> tuple[float, float]:
    """Return the MB per second of all readers, and the longest wait of another client in s."""
    sizes: list[int] = []
    threads = [
        threading.Thread(target=lambda: sizes.append(read_stream(server, name)))
        for _ in range(readers)
    ]
    began, longest_s = time.monotonic(), 0.0
    for thread in threads:
        thread.start()
    with server.client() as client:
        while any(thread.is_alive() for thread in threads):
            longest_s = max(longest_s, seconds_of(lambda: client.call("GET", f"/v1/{name}")))
            time.sleep(0.02)
    return sum(sizes) / (time.monotonic() - began) / 1e6, longest_s


def read_stream(server: Server, name: str) -> int:
    """Read the log of a job as a stream; return the number of bytes."""
    path = f"/trainshed/v1/projects/{PROJECT}/jobs/{name.rpartition('/')[2]}/logs"
    headers = {"Authorization": f"Bearer {server.token}"}
    request = Request(server.url + path, headers=headers)  # noqa: S310  # our own
    with urlopen(request, timeout=600) as answer:  # noqa: S310  # our own
        return sum(map(len, iter(lambda: answer.read(1 << 16), b"")))


def seconds_of(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.monotonic()
    call()
    return time.monotonic() - began


def peak_mb(server: Server) -> float:
    """Return the peak memory of the server's process, in MB."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={
        "megabytes": (50.0, 0.1),
        "readers": (8, 2),
        "lines": (1_000_000, 100),
        "searches": (3, 1),
    },
    add_options=lambda parser: parser.add_argument(
        "--search-only", action="store_true", help="leave out the other goals"
    ),
)
