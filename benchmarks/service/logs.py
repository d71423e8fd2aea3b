"""How fast a job's log is written and read, and what many readers cost the server and others.

    python -m benchmarks logs [--megabytes 50] [--lines 1000000] [--search-only]

A job prints lines, and one of many megabytes.  One reader and then eight stream the log of each;
meanwhile another client asks for the job.  A filter of one word searches the lines of a third job,
and ``grep -i`` the same files.
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

#: On two quiet cores; short lines cost by their number.
WRITTEN_MB_S_MIN, READ_MB_S_MIN, SHORT_MB_S_MIN = 4.0, 20.0, 4.0
PEAK_MB_MAX, OTHERS_S_MAX = 250.0, 0.5
#: A word without a field, in a million lines of a project; beside ``grep -i`` over the same files.
SEARCH_S_MAX, SEARCH_TIMES_GREP_MAX = 2.0, 20.0
WORD, WITH_WORD = "NeedleWord", 10
LINE = 100
#: No rate is to be measured but our own.
CONFIG = "[limits]\nlog_bytes_per_s_max = 0\n"


def measure(args: argparse.Namespace) -> Report:
    """Writing and reading, unless left out, and searching."""
    goals = [] if args.search_only else measured(int(args.megabytes * 1e6), args.readers)
    return Report(goals=[*goals, *searched(args.lines, args.searches)])


def measured(size: int, readers: int) -> list[Goal]:
    """What one server writes and reads."""
    lines = f"print(('x' * {LINE - 1} + chr(10)) * {size // LINE}, end='')"
    one = f"print('x' * {size})"
    goals = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(CONFIG)
        with local(Path(folder)) as server:
            name, took_s = ran(server, lines)
            rate = size / took_s / 1e6
            goals.append(at_least("log written by one job", rate, WRITTEN_MB_S_MIN, "MB/s"))
            rate, _ = read(server, name, 1)
            goals.append(at_least("log of short lines, read by one", rate, SHORT_MB_S_MIN, "MB/s"))
            name, _ = ran(server, one)
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
    """The goals of a filter of one word, on a server of its own."""
    every = lines // WITH_WORD
    code = (
        f"for n in range(1, {lines} + 1):\n"
        " print(f'Epoch {n // 1000} step {n}: loss=0.{n % 997:03d} accuracy=0.{n % 991:03d}'"
        f" + ' {WORD}' * (n % {every} == 0))"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(CONFIG)
        with local(Path(folder)) as server:
            ran(server, code)
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
    """Seconds until the filter has given all pages; they must have every line with the word."""
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
        raise SystemExit(f"the filter let {count} entries through instead of {WITH_WORD}")
    return time.monotonic() - began


def ran(server: Server, code: str) -> tuple[str, float]:
    """A job that has run, and for how long from its submit."""
    began = time.monotonic()
    with server.client() as client:
        name = str(client.call("POST", VERTEX, job(0, code))["name"])
    await_state(server, name, "JOB_STATE_SUCCEEDED")
    return name, time.monotonic() - began


def read(server: Server, name: str, readers: int) -> tuple[float, float]:
    """Megabytes a second of all readers together, and the longest wait of another client."""
    sizes: list[int] = []
    threads = [
        threading.Thread(target=lambda: sizes.append(streamed(server, name)))
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


def streamed(server: Server, name: str) -> int:
    """How many bytes the log has as it is streamed; they are not kept."""
    path = f"/trainshed/v1/projects/{PROJECT}/jobs/{name.rpartition('/')[2]}/logs"
    headers = {"Authorization": f"Bearer {server.token}"}
    request = Request(server.url + path, headers=headers)  # noqa: S310  # our own
    with urlopen(request, timeout=600) as answer:  # noqa: S310  # our own
        return sum(map(len, iter(lambda: answer.read(1 << 16), b"")))


def seconds_of(call: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.monotonic()
    call()
    return time.monotonic() - began


def peak_mb(server: Server) -> float:
    """The most memory that the server's process ever had."""
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
