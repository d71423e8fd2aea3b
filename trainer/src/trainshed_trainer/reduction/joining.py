"""How a worker comes to a reducer, and what each does to prove itself to the other.

A worker tries until it is heard: a reducer may not be up yet, and one that many greet at once turns
some of them away.
"""

from __future__ import annotations

import socket
import time
from typing import Callable, NamedTuple

from trainshed_trainer.reduction import handshake
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.handshake import Challenge, Hello
from trainshed_trainer.reduction.links import Address, Link

#: Seconds between two attempts to reach a reducer that is not up yet.
RETRY_S = 0.1


class Group(NamedTuple):
    """What all connections of a worker have in common."""

    rank: int
    world: int
    epoch: int
    token: bytes
    timeout: float
    join_timeout: float


class Reached(NamedTuple):
    """A proven connection to ``culprit``, and the bytes of this worker's ring there."""

    link: Link
    ring: int
    culprit: Culprit


def reach(
    address: Address,
    index: int,
    group: Group,
    reducers: int,
    failed: Callable[[], ReductionError | None],
) -> Reached:
    """Connect to the reducer at ``index``; :class:`ReductionError` if it cannot be.

    ``failed`` gives the error after which there is no group to join any more.
    """
    culprit = culprit_of(index, reducers)
    until = time.monotonic() + group.join_timeout
    while True:
        try:
            return _reached(address, index, group, culprit, until)
        except ReductionError as error:
            why = f"worker {group.rank} refuses {culprit} at {address[0]}:{address[1]}"
            raise ReductionError(f"{why}: {error}", blame=culprit) from None
        except OSError as error:
            if failed() or time.monotonic() > until:
                raise failed() or ReductionError(
                    f"worker {group.rank} cannot reach {culprit} at {address[0]}:{address[1]}"
                    f" within {group.join_timeout:g} s: {error}",
                    blame=culprit,
                ) from None
        time.sleep(RETRY_S)


def greeted(sock: socket.socket, token: bytes, ring_for: Callable[[int], int]) -> Hello:
    """Who has connected to this reducer; ``ValueError`` or ``OSError`` if it proves nothing.

    ``ring_for`` says how many bytes of a ring each worker of a group of so many has here.
    """
    until = time.monotonic() + handshake.DEADLINE_S
    try:
        hello = handshake.parse_hello(_exactly(sock, handshake.HELLO.size, until))
    except handshake.OtherVersion:
        sock.sendall(handshake.ANSWER_TO_OTHERS)
        raise
    challenge = Challenge(ring_for(hello.world), handshake.nonce())
    sock.sendall(challenge.pack() + handshake.proof(token, b"reducer", hello, challenge))
    received = _exactly(sock, handshake.PROOF_SIZE, until)
    if not handshake.proves(token, b"worker", hello, challenge, received):
        raise ValueError("a wrong proof")
    return hello


def culprit_of(index: int, reducers: int) -> Culprit:
    """Whom connection ``index`` leads to: a reducer of pool 2, or a worker that reduces too."""
    if index < reducers:
        return Culprit(Kind.REDUCER, index)
    return Culprit(Kind.WORKER, index - reducers)


def _reached(address: Address, index: int, group: Group, culprit: Culprit, until: float) -> Reached:
    """One attempt; ``OSError`` where another may do better."""
    left = max(RETRY_S, until - time.monotonic())
    sock = socket.create_connection(address, min(handshake.DEADLINE_S, left))
    try:
        ring = _proven(sock, index, group)
        return Reached(Link(sock, group.timeout), ring, culprit)
    except BaseException:
        sock.close()
        raise


def _proven(sock: socket.socket, index: int, group: Group) -> int:
    """The worker's side of the handshake; the ring that the reducer has for each worker."""
    until = time.monotonic() + handshake.DEADLINE_S
    low, high = handshake.TIMEOUT_MS
    timeout_ms = max(low, min(high, int(group.timeout * 1000)))
    hello = Hello(index, group.epoch, group.rank, group.world, timeout_ms, handshake.nonce())
    sock.sendall(hello.pack())
    answer = _exactly(sock, handshake.CHALLENGE.size + handshake.PROOF_SIZE, until)
    challenge = handshake.parse_challenge(answer[: handshake.CHALLENGE.size])
    received = answer[handshake.CHALLENGE.size :]
    if not handshake.proves(group.token, b"reducer", hello, challenge, received):
        raise ReductionError("it does not hold this job's token")
    sock.sendall(handshake.proof(group.token, b"worker", hello, challenge))
    return challenge.ring


def _exactly(sock: socket.socket, nbytes: int, until: float) -> bytes:
    """``nbytes`` bytes of a stranger, who may not take longer than ``until``."""
    data = b""
    while len(data) < nbytes:
        sock.settimeout(max(0.001, until - time.monotonic()))
        more = sock.recv(nbytes - len(data))
        if not more:
            raise ConnectionResetError("the connection was closed")
        data += more
    return data
