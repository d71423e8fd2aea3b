"""Measures storing and reading an object, compared with ``open`` of the same bytes.

    python -m benchmarks storage [--rounds 400] [--against SRC]
    python -m benchmarks storage --gs [--megabytes 1000] [--objects 10000]

The server resolves names below buckets against descriptors; the benchmark shows the cost of that.
Each row is the median of ``--rounds`` calls over one connection.  The calls take turns with
``open``, ``fsync`` and ``rename`` of the same bytes.  ``--against`` is the ``src`` folder of
another version: its server is measured in turns too, and the goal is the ratio of both.  ``--gs``
measures instead how fast a job reads through its gateway.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, urlsplit

from benchmarks.harness import Benchmark, Report, at_most
from benchmarks.service import storage_gs
from benchmarks.service.servers import Server, local

BUCKET = "bench"
NAME = "jobs/a/model/weights.bin"
SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20}
#: The largest ratio of this version's time to that of the version of ``--against``.
SHARE_MAX = 1.05

#: The median seconds, by side: this version, the other version, or ``open``.
Row = dict[str, float]


def measure(args: argparse.Namespace) -> Report:
    """Measure objects of each size, or with ``--gs`` the gateway of a job."""
    if args.gs:
        return storage_gs.compare(args.megabytes, args.objects, args.readings)
    rows = measured(args.rounds, args.warm, args.against)
    return Report(
        goals=[
            at_most(f"{what}, today over before", row["today"] / row["before"], SHARE_MAX, "times")
            for what, row in rows.items()
            if "before" in row
        ],
        lines=[
            f"  {what:<12}" + "".join(f"{side:>9} {s * 1e3:7.3f} ms" for side, s in row.items())
            for what, row in rows.items()
        ],
        data={"seconds": rows},
    )


def measured(rounds: int, warm: int, against: Path | None) -> dict[str, Row]:
    """Return the rows of the table, by the call and the size of the object."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        sides: dict[str, Client | Plain] = {
            "today": stack.enter_context(storing(Path(folder, "today"), None))
        }
        if against:
            sides["before"] = stack.enter_context(storing(Path(folder, "before"), against))
        sides["open"] = Plain(Path(folder, "plain", NAME))
        rows = {}
        for size, count in SIZES.items():
            content = os.urandom(count)
            for what in ("put", "get"):
                rows[f"{what} {size}"] = _medians(sides, what, content, rounds, warm)
        return rows


class Client:
    """One connection to a server with a bucket."""

    def __init__(self, server: Server) -> None:
        """Connect, and create the bucket."""
        self._connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        self._headers = {"Authorization": f"Bearer {server.token}"}
        self._call("POST", "/storage/v1/b", json.dumps({"name": BUCKET}).encode())

    def put(self, content: bytes) -> None:
        """Store an object."""
        self._call("POST", f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={NAME}", content)

    def get(self, content: bytes) -> None:
        """Read the object; raise SystemExit if it differs from ``content``."""
        if self._call("GET", f"/storage/v1/b/{BUCKET}/o/{quote(NAME, '')}?alt=media") != content:
            raise SystemExit("the bytes that were read differ from those that were written")

    def _call(self, verb: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(verb, path, body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != HTTPStatus.OK:
            raise SystemExit(f"{verb} {path}: {answer.status} {content[:500].decode()}")
        return content


class Plain:
    """Writes and reads a file without a server."""

    def __init__(self, path: Path) -> None:
        """Make the folder of the file."""
        self._path = path
        path.parent.mkdir(parents=True)

    def put(self, content: bytes) -> None:
        """Write the file completely and durably: sync it, then rename it."""
        half = self._path.with_suffix(".half")
        with half.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        half.replace(self._path)

    def get(self, content: bytes) -> None:
        """Read the file; raise SystemExit if it differs from ``content``."""
        if self._path.read_bytes() != content:
            raise SystemExit("the bytes that were read differ from those that were written")


@contextlib.contextmanager
def storing(folder: Path, source: Path | None) -> Iterator[Client]:
    """Start a server, from ``source`` if it is given; yield a client with a bucket."""
    folder.mkdir(mode=0o700)
    with local(folder, source=source) as server:
        yield Client(server)


def _medians(
    sides: dict[str, Client | Plain], what: str, content: bytes, rounds: int, warm: int
) -> Row:
    """Let all sides make a call in each round, in random order; return the median seconds.

    The first ``warm`` rounds do not count.
    """
    took: dict[str, list[float]] = {name: [] for name in sides}
    turns, order = [*sides.items()], random.Random(1)  # noqa: S311
    for _ in range(rounds):
        order.shuffle(turns)
        for name, caller in turns:
            began = time.perf_counter()
            getattr(caller, what)(content)
            took[name].append(time.perf_counter() - began)
    return {name: statistics.median(durations[warm:]) for name, durations in took.items()}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what to measure."""
    parser.add_argument("--against", type=Path, metavar="SRC", help="compare with another version")
    parser.add_argument("--gs", action="store_true", help="measure the gateway of a job instead")


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={
        "rounds": (400, 1),
        "warm": (20, 0),
        "megabytes": (1000, 2),
        "objects": (10_000, 10),
        "readings": (3, 1),
    },
    add_options=add_options,
)
