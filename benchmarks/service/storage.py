"""What it takes to store an object and to get it, beside ``open`` of the same bytes.

    python -m benchmarks storage [--rounds 400] [--against SRC]
    python -m benchmarks storage --gs [--megabytes 1000] [--objects 10000]

Names below buckets are resolved against descriptors; this shows what that costs.  Each row is the
median of so many calls over one connection, in turns with the same by ``open``, ``fsync`` and
``rename``.  ``--against`` names the ``src`` of another version: a server of it takes turns too, and
the ratio is of both.  ``--gs`` measures what a job reads through its gateway instead.
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
#: Of the time of the version before.
SHARE_MAX = 1.05

#: Seconds, by who does it.
Row = dict[str, float]


def measure(args: argparse.Namespace) -> Report:
    """Objects of each size, or what jobs read through a gateway."""
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
    """The medians in seconds, by what is done."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as held:
        sides: dict[str, Client | Plain] = {
            "today": held.enter_context(storing(Path(folder, "today"), None))
        }
        if against:
            sides["before"] = held.enter_context(storing(Path(folder, "before"), against))
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
        """Make the bucket."""
        self._connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        self._headers = {"Authorization": f"Bearer {server.token}"}
        self._call("POST", "/storage/v1/b", json.dumps({"name": BUCKET}).encode())

    def put(self, content: bytes) -> None:
        """Store the object."""
        self._call("POST", f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={NAME}", content)

    def get(self, content: bytes) -> None:
        """Read it again."""
        if self._call("GET", f"/storage/v1/b/{BUCKET}/o/{quote(NAME, '')}?alt=media") != content:
            raise SystemExit("other bytes came back")

    def _call(self, verb: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(verb, path, body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != HTTPStatus.OK:
            raise SystemExit(f"{verb} {path}: {answer.status} {content[:500].decode()}")
        return content


class Plain:
    """The same without us."""

    def __init__(self, path: Path) -> None:
        """Make the folder."""
        self._path = path
        path.parent.mkdir(parents=True)

    def put(self, content: bytes) -> None:
        """Write it whole and for good, as a careful program does."""
        half = self._path.with_suffix(".half")
        with half.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        half.replace(self._path)

    def get(self, content: bytes) -> None:
        """Read it again."""
        if self._path.read_bytes() != content:
            raise SystemExit("other bytes came back")


@contextlib.contextmanager
def storing(folder: Path, source: Path | None) -> Iterator[Client]:
    """A client of a server of its own, of another version's source where one is named."""
    folder.mkdir(mode=0o700)
    with local(folder, source=source) as server:
        yield Client(server)


def _medians(
    sides: dict[str, Client | Plain], what: str, content: bytes, rounds: int, warm: int
) -> Row:
    """One call each, in an order that is drawn; the first ones are not counted."""
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
    """An older version beside this one, or the gateway instead."""
    parser.add_argument("--against", type=Path, metavar="SRC")
    parser.add_argument("--gs", action="store_true")


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
