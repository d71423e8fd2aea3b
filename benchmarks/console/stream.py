"""Measures what open pages cost a server: streams of changes while jobs change.

    python -m benchmarks console_stream [--jobs 5000] [--streams 100] [--changes 20] [--seconds 20]

A simulated server has ``--jobs`` open jobs.  Labels of jobs change ``--changes`` times a second,
while no stream and then ``--streams`` streams of the whole queue are open; their difference is the
cost of the streams.  The delay of a change is the time from the answer to its call, which comes
after the commit, until the event has arrived.  Then ``--loaded`` streams are open while clients
submit jobs, in turns with none.
"""

import argparse
import json
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from benchmarks.harness import Benchmark, Goal, Report, at_least, at_most, tell
from benchmarks.service.documents import PROJECT
from benchmarks.service.measures import submits
from benchmarks.service.servers import Server, simulated
from trainshed.api.change_streams import OWNER_STREAMS_MAX

CORE_SHARE_MAX = 0.05
STREAM_MB_MAX = 0.3
DELAY_S_MAX = 1.0
SUBMITS_LEAST = 0.95
#: Seconds that a server rests before a measurement, until a look has seen what was before.
REST_S = 3.0
ARRIVAL_S_MAX = 30.0
QUEUE = f"/trainshed/v1/projects/{PROJECT}/jobs?open=true&pageSize=5000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The processor time of the server while jobs changed, and the delay of each event."""

    cpu_s: float
    delays_s: Sequence[float]


@dataclass(slots=True)
class Streams:
    """Open streams, read by one thread."""

    sockets: Sequence[socket.socket]
    arrivals: dict[str, list[float]] = field(default_factory=dict)
    """By uid: when the first stream got an event with the job."""
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def read(self) -> Iterator[None]:
        """Read all streams; the events of the first are kept."""
        thread = threading.Thread(target=self._read)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            self._stop.clear()

    def _read(self) -> None:
        first, rest = self.sockets[0], b""
        with selectors.DefaultSelector() as selector:
            for source in self.sockets:
                selector.register(source, selectors.EVENT_READ)
            while not self._stop.is_set():
                for key, _ in selector.select(0.05):
                    data = self._receive(key.fileobj)
                    if key.fileobj is first:
                        rest = self._note(rest + data)

    def _receive(self, source: object) -> bytes:
        if not isinstance(source, socket.socket) or not (data := source.recv(1 << 18)):
            raise SystemExit("the server has ended a stream; read serve.log in its data directory")
        return data

    def _note(self, data: bytes) -> bytes:
        """Note the uids of whole events; return the rest."""
        *events, rest = data.split(b"\n\n")
        now = time.monotonic()
        for event in events:
            name, _, line = event.partition(b"\ndata: ")
            if name.endswith(b"event: queue"):
                for row in json.loads(line)["jobs"]:
                    self.arrivals.setdefault(row["uid"], []).append(now)
        return rest


def measure(args: argparse.Namespace) -> Report:
    """Measure one server."""
    with simulated(gpus=8, nodes=4) as server:
        with server.client() as client:
            client.answer("POST", f"/simulated/jobs?count={args.jobs}")
        names = wait_for_queue(server, args.jobs)
        with opened(server, 1) as streams:  # what one page needs is there before measuring
            change_jobs(server, names, args, streams)
        tell("changes without streams")
        memory_mb = [server.memory_mb()]
        quiet = [change_jobs(server, names, args, None).cpu_s]
        tell(f"changes with {args.streams} streams")
        memory_mb.append(server.memory_mb())
        with opened(server, args.streams) as streams:
            busy = change_jobs(server, names, args, streams)
            memory_mb.append(server.memory_mb())
        quiet.append(change_jobs(server, names, args, None).cpu_s)
        loaded = compare_submits(server, args)
    first_mb, quiet_mb, busy_mb = memory_mb  # changes alone take memory too
    stream_mb = (busy_mb - quiet_mb - max(0.0, quiet_mb - first_mb)) / args.streams
    share = (busy.cpu_s - statistics.mean(quiet)) / args.seconds
    return Report(
        goals=[
            at_most("share of a core", share, CORE_SHARE_MAX, "", f"{args.streams} streams"),
            at_most("memory of a stream", stream_mb, STREAM_MB_MAX, "MB"),
            *delay_goals(busy.delays_s),
            loaded,
        ],
        data={
            "memory_mb": memory_mb,
            "quiet_cpu_s": quiet,
            "busy_cpu_s": busy.cpu_s,
            "delays_s": busy.delays_s,
        },
    )


def delay_goals(delays: Sequence[float]) -> list[Goal]:
    """Return the delays from a commit to the event."""
    if len(delays) < 2:
        raise SystemExit("no change has arrived at a stream; read serve.log")
    p95 = statistics.quantiles(delays, n=20)[-1]
    return [
        at_most("from commit to event, p95", p95, DELAY_S_MAX, "s"),
        at_most("from commit to event, median", statistics.median(delays), None, "s"),
    ]


def wait_for_queue(server: Server, count: int) -> list[tuple[str, str]]:
    """Return (uid, name) of some open jobs, when all jobs are queued or run."""
    with server.client() as client:
        while sum(server.states().values()) < count:
            time.sleep(0.2)
        jobs = client.call("GET", QUEUE)["jobs"]
    return [(job["uid"], job["name"].rpartition("/")[2]) for job in jobs]


@contextmanager
def opened(server: Server, count: int) -> Iterator[Streams]:
    """Open streams of the queue of all projects, and wait until each is ready."""
    parts = urlsplit(server.url)
    address = (str(parts.hostname), int(parts.port or 0))
    with ExitStack() as stack:
        sockets = []
        for number in range(count):
            if number % OWNER_STREAMS_MAX == 0:
                token = make_token(server)
            head = (
                f"GET /trainshed/v1/stream?topic=queue:- HTTP/1.1\r\nHost: {parts.netloc}\r\n"
                f"Authorization: Bearer {token}\r\n\r\n"
            )
            one = stack.enter_context(socket.create_connection(address, timeout=60))
            one.sendall(head.encode())
            sockets.append(one)
        for one in sockets:
            data = b""
            while b"event: ready" not in data:
                data += one.recv(1 << 16)
        yield Streams(sockets)


def make_token(server: Server) -> str:
    """Return a new token: a server limits the streams of each."""
    with server.client() as client:
        document = {"name": "page", "role": "viewer", "project": PROJECT}
        return str(client.call("POST", "/trainshed/v1/tokens", document)["token"])


def change_jobs(
    server: Server,
    names: Sequence[tuple[str, str]],
    args: argparse.Namespace,
    streams: Streams | None,
) -> Changes:
    """Change jobs at an even rate, after a rest; wait until the first stream has the changes."""
    with streams.read() if streams else nullcontext():
        time.sleep(REST_S)
        before_s = server.cpu_s()
        committed = order_changes(server, names, args)
        cpu_s = server.cpu_s() - before_s
        delays = [delay_of(streams, *one) for one in committed] if streams else []
    return Changes(cpu_s=cpu_s, delays_s=delays)


def delay_of(streams: Streams, uid: str, changed_s: float) -> float:
    """Return the seconds from a change until its event; the event may be before the answer."""
    deadline = time.monotonic() + ARRIVAL_S_MAX
    while time.monotonic() < deadline:
        for arrived_s in streams.arrivals.get(uid, ()):
            if arrived_s > changed_s - 0.05:
                return max(0.0, arrived_s - changed_s)
        time.sleep(0.05)
    raise SystemExit(f"no event of the job {uid} came within {ARRIVAL_S_MAX:g} s; read serve.log")


def order_changes(
    server: Server, names: Sequence[tuple[str, str]], args: argparse.Namespace
) -> list[tuple[str, float]]:
    """Change the labels of jobs, one after the other; return (uid, time of the answer)."""
    committed = []
    with server.client() as client:
        began = time.monotonic()
        for number in range(int(args.changes * args.seconds)):
            uid, job = names[number % len(names)]
            path = f"/trainshed/v1/projects/{PROJECT}/jobs/{job}:label"
            time.sleep(max(0.0, began + number / args.changes - time.monotonic()))
            client.answer("POST", path, {"labels": {"turn": str(int(1000 * began) + number)}})
            committed.append((uid, time.monotonic()))
    return committed


def compare_submits(server: Server, args: argparse.Namespace) -> Goal:
    """Return the rate of submits with open streams, over that without, in turns."""
    with_streams, without = [], []
    submits(server, args.submits)
    for round_ in range(args.rounds):
        tell(f"submits, round {round_ + 1} of {args.rounds}")
        without.append(submits(server, args.submits).per_s)
        with opened(server, args.loaded) as streams, streams.read():
            with_streams.append(submits(server, args.submits).per_s)
    share = statistics.median(with_streams) / statistics.median(without)
    note = f"{args.loaded} streams; {statistics.median(without):.0f} a second without"
    return at_least("submits, over those without streams", share, SUBMITS_LEAST, "", note)


BENCHMARK = Benchmark(
    description=__doc__ or "",
    measure=measure,
    sizes={
        "jobs": (5000, 100),
        "streams": (100, 5),
        "changes": (20.0, 20.0),
        "seconds": (20.0, 2.0),
        "loaded": (20, 2),
        "submits": (1000, 50),
        "rounds": (5, 1),
    },
)
