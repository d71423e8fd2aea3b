"""The ranks of a reduction benchmark: processes that do as they are told.

Ranks are forked from this process after it has imported what they need, since eight imports of
torch would cost more than all that is measured.  Requests and answers are lines of JSON.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from benchmarks.harness import Json
from benchmarks.reduction.shaped_network import Network

#: What a rank does with a request.
Handler = Callable[[Json], Json]

ANSWER_S_MAX: Final = 120.0
#: By then every rank has read the line that names a moment, and sleeps until it.
LEAD_S: Final = 0.03
PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, kw_only=True)
class Rank:
    """A forked process with a rank, and the connection to it."""

    number: int
    pid: int
    line: socket.socket

    def tell(self, request: Json) -> None:
        """Send a request."""
        self.line.sendall(json.dumps(request).encode() + b"\n")

    def answer(self, timeout_s: float = ANSWER_S_MAX) -> Json:
        """Wait for what it says.

        Raises:
            RuntimeError: it failed, ended, or said nothing in time.

        """
        self.line.settimeout(timeout_s)
        received = b""
        while not received.endswith(b"\n"):
            try:
                more = self.line.recv(1 << 16)
            except OSError as fault:
                raise RuntimeError(f"rank {self.number} does not answer: {fault}") from fault
            if not more:
                raise RuntimeError(f"rank {self.number} has ended")
            received += more
        answer: Json = json.loads(received)
        if "fault" in answer:
            raise RuntimeError(f"rank {self.number}: {answer['fault']}")
        return answer


@dataclass(kw_only=True)
class Crew:
    """All ranks."""

    net: Network
    ranks: list[Rank] = field(default_factory=list)

    def ask(self, request: Json, *, to: Sequence[int] | None = None) -> list[Json]:
        """Send one request to all ranks at once; return their answers in order."""
        return self.ask_each([request for _ in self.chosen(to)], to=to)

    def ask_each(self, requests: Sequence[Json], *, to: Sequence[int] | None = None) -> list[Json]:
        """Send a different request to each rank; return their answers in order."""
        chosen = self.chosen(to)
        for rank, request in zip(chosen, requests, strict=True):
            rank.tell(request)
        return [rank.answer() for rank in chosen]

    def together(self, request: Json, *, to: Sequence[int] | None = None) -> float:
        """Let ranks begin something at the same moment; seconds until the last has done it.

        All processes of a machine read the same monotonic clock.
        """
        at = time.monotonic() + LEAD_S
        return max(float(answer["end"]) for answer in self.ask({**request, "at": at}, to=to)) - at

    def chosen(self, to: Sequence[int] | None) -> list[Rank]:
        """Return the ranks with these numbers; all ranks if no number is given."""
        return self.ranks if to is None else [self.ranks[number] for number in to]

    def close(self) -> None:
        """End the ranks."""
        for rank in self.ranks:
            rank.line.close()
            os.kill(rank.pid, signal.SIGKILL)
        for rank in self.ranks:
            os.waitpid(rank.pid, 0)
        self.ranks = []


@contextmanager
def crew(net: Network, count: int, make: Callable[[int], Handler]) -> Iterator[Crew]:
    """Fork ``count`` ranks onto the first hosts; ``make(rank)`` makes the object that answers."""
    team = Crew(net=net)
    try:
        for number in range(count):
            team.ranks.append(_fork(net, number, make))
        yield team
    finally:
        team.close()


def _fork(net: Network, number: int, make: Callable[[int], Handler]) -> Rank:
    here, there = socket.socketpair()
    parent, pid = os.getpid(), os.fork()
    if pid:
        there.close()
        return Rank(number=number, pid=pid, line=here)
    try:
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, signal.SIG_DFL)
        _die_with(parent)
        here.close()
        net.enter(number)
        _obey(there, make(number))
    except BaseException:  # noqa: BLE001  # a fork must never return into the parent's code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when the thread that forked it ends, or has ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _obey(line: socket.socket, handler: Handler) -> None:
    """Answer requests until the connection is closed."""
    with line.makefile("rw", encoding="utf-8") as file:
        for request in file:
            try:
                answer = handler(json.loads(request))
            except Exception as fault:  # noqa: BLE001  # told to who asked
                last = traceback.format_exc(limit=-2)
                answer = {"fault": f"{type(fault).__name__}: {fault}\n{last}"}
            file.write(json.dumps(answer) + "\n")
            file.flush()
