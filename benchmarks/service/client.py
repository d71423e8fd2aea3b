"""HTTP clients with one connection each, which use little processor time beside the server."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from benchmarks.harness import Json

TIMEOUT_S = 120.0


class Client:
    """One connection to a server, for one thread."""

    def __init__(self, url: str, token: str) -> None:
        """Connect."""
        parts = urlsplit(url)
        self._host = parts.netloc
        self._token = token
        self._socket = socket.create_connection(
            (parts.hostname or "", parts.port or 0), timeout=TIMEOUT_S
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, verb: str, path: str, document: Json | None = None) -> Json:
        """Send a request and return the answer's document.

        Raises SystemExit unless the status is 200.
        """
        return dict(json.loads(self.answer(verb, path, document)))

    def lines(self, path: str) -> Iterator[Json]:
        """Yield the JSON objects of a streamed answer as they arrive."""
        self._send("GET", path, None)
        self._until(b"\r\n\r\n")
        while size := int(self._until(b"\r\n"), 16):
            yield from map(json.loads, self._exactly(size + 2).decode().split("\n")[:-2])

    def answer(self, verb: str, path: str, document: Json | None = None) -> bytes:
        """Send a request and return the bytes of the answer, without reading the JSON."""
        self._send(verb, path, document)
        head = self._until(b"\r\n\r\n").decode("latin-1")
        body = self._exactly(_length(head))
        if not head.startswith("HTTP/1.1 200"):
            raise SystemExit(f"{verb} {path}: {head.splitlines()[0]}\n{body[:2000].decode()}")
        return body

    def _send(self, verb: str, path: str, document: Json | None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        head = (
            f"{verb} {path} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._rest += self._more()
        part, _, self._rest = self._rest.partition(mark)
        return part

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += self._more()
        part, self._rest = self._rest[:size], self._rest[size:]
        return part

    def _more(self) -> bytes:
        chunk = self._socket.recv(1 << 16)
        if not chunk:
            raise SystemExit(
                "the server closed the connection; read serve.log in its data directory"
            )
        return chunk


def _length(head: str) -> int:
    for line in head.splitlines():
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            return int(value)
    raise SystemExit(f"the answer has no Content-Length:\n{head}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The total time of many clients, and the time of each of their calls, in seconds."""

    wall_s: float
    call_s: Sequence[float]

    @property
    def per_s(self) -> float:
        """The number of calls per second."""
        return len(self.call_s) / self.wall_s

    def quantile_ms(self, share: float) -> float:
        """Return the quantile of the calls' times for a share between 0 and 1, in ms."""
        ranked = sorted(self.call_s)
        return 1000 * ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def together(
    url: str, token: str, clients: int, calls: int, call: Callable[[Client, int], object]
) -> Load:
    """Make ``calls`` calls in ``clients`` threads; ``call`` gets a client and the call's number.

    Raises SystemExit if a call fails.
    """
    numbers = iter(range(calls))
    durations: list[float] = []
    faults: list[BaseException] = []

    def run() -> None:
        try:
            with Client(url, token) as client:
                for number in numbers:
                    began = time.perf_counter()
                    call(client, number)
                    durations.append(time.perf_counter() - began)
        except BaseException as fault:  # noqa: BLE001  # the main thread reports it
            faults.append(fault)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise SystemExit(str(faults[0])) from faults[0]
    return Load(wall_s=time.perf_counter() - began, call_s=durations)
