"""What it takes to store an object and to get it, beside ``open`` of the same bytes.

    python benchmarks/storage.py [--rounds 400] [--format json] [--against SRC]
    python benchmarks/storage.py --gs [--megabytes 1000] [--objects 10000]

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

import storage_gs
from service_servers import Server, local

BUCKET = "bench"
NAME = "jobs/a/model/weights.bin"
SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20}
#: Of the time of the version before.
SHARE_MAX = 1.05

WARM = 20

#: Seconds, by who does it.
Row = dict[str, float]


def main() -> int:
    """Measure, print, and with ``--against`` say whether the promise is kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--against", type=Path, metavar="SRC")
    parser.add_argument("--gs", action="store_true")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--objects", type=int, default=10_000)
    args = parser.parse_args()
    if args.gs:
        return storage_gs.compare(args.megabytes, args.objects, rounds=3)
    rows = measured(args.rounds, args.against)
    shares = [row["today"] / row["before"] for row in rows.values() if "before" in row]
    if args.format == "json":
        print(json.dumps(rows))
    else:
        for what, row in rows.items():
            print(
                f"  {what:<12}" + "".join(f"{who:>9} {s * 1e3:7.3f} ms" for who, s in row.items())
            )
        if shares:
            verdict = "PASS" if max(shares) <= SHARE_MAX else "FAIL"
            figures = ", ".join(f"{share:.3f}" for share in shares)
            print(f"\n  {verdict}  today over before  {figures}  (at most {SHARE_MAX})")
    return 1 if shares and max(shares) > SHARE_MAX else 0


def measured(rounds: int, against: Path | None) -> dict[str, Row]:
    """The medians in seconds, by what is done."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as held:
        who: dict[str, Client | Plain] = {
            "today": held.enter_context(storing(Path(folder, "today"), None))
        }
        if against:
            who["before"] = held.enter_context(storing(Path(folder, "before"), against))
        who["open"] = Plain(Path(folder, "plain", NAME))
        rows = {}
        for size, count in SIZES.items():
            content = os.urandom(count)
            for what in ("put", "get"):
                rows[f"{what} {size}"] = _medians(who, what, content, rounds)
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


def _medians(who: dict[str, Client | Plain], what: str, content: bytes, rounds: int) -> Row:
    """One call each, in an order that is drawn; the first ones are not counted."""
    took: dict[str, list[float]] = {name: [] for name in who}
    turns, order = [*who.items()], random.Random(1)  # noqa: S311
    for _ in range(rounds):
        order.shuffle(turns)
        for name, caller in turns:
            began = time.perf_counter()
            getattr(caller, what)(content)
            took[name].append(time.perf_counter() - began)
    return {name: statistics.median(durations[WARM:]) for name, durations in took.items()}


if __name__ == "__main__":
    raise SystemExit(main())
