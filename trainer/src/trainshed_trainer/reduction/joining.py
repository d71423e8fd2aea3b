"""Connects a worker to a reducer; both prove that they hold the job's token.

A worker retries: a reducer may not have started yet, and a reducer with too many connections at one
time refuses some of them.
"""

from __future__ import annotations

import socket
import time
from typing import Callable, NamedTuple

from trainshed_trainer.reduction import handshake
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.handshake import Challenge, Hello
from trainshed_trainer.reduction.links import Address, Link

#: Seconds between two attempts to reach a reducer.
RETRY_S = 0.1


class Group(NamedTuple):
    """The settings that all connections of a worker share."""

    rank: int
    world: int
    epoch: int
    token: bytes
    timeout: float
    join_timeout: float


class ReducerConnection(NamedTuple):
    """An authenticated connection to the reducer ``culprit``.

    ``ring`` is the number of bytes that the reducer has for this worker.
    """

    link: Link
    ring: int
    culprit: Culprit


def connect_to_reducer(
    address: Address,
    index: int,
    group: Group,
    reducers: int,
    failed: Callable[[], ReductionError | None],
) -> ReducerConnection:
    """Connect to the reducer at ``index``.  Raises :class:`ReductionError` after the timeout.

    ``failed`` returns the group's error; after an error of the group there are no more attempts.
    """
    culprit = culprit_of(index, reducers)
    until = time.monotonic() + group.join_timeout
    while True:
        try:
            return _connect(address, index, group, culprit, until)
        except ReductionError as error:
            refusal = f"worker {group.rank} refuses {culprit} at {address[0]}:{address[1]}"
            raise ReductionError(f"{refusal}: {error}", blame=culprit) from None
        except OSError as error:
            if failed() or time.monotonic() > until:
                raise failed() or ReductionError(
                    f"worker {group.rank} cannot reach {culprit} at {address[0]}:{address[1]}"
                    f" within {group.join_timeout:g} s: {error}",
                    blame=culprit,
                ) from None
        time.sleep(RETRY_S)


def authenticate_worker(sock: socket.socket, token: bytes, ring_for: Callable[[int], int]) -> Hello:
    """Authenticate a worker that has connected.  Raises ``ValueError`` or ``OSError``.

    ``ring_for`` returns the bytes of each worker's ring for a given number of workers.
    """
    until = time.monotonic() + handshake.DEADLINE_S
    try:
        hello = handshake.parse_hello(_receive_exactly(sock, handshake.HELLO.size, until))
    except handshake.OtherVersion:
        sock.sendall(handshake.ANSWER_TO_OTHERS)
        raise
    challenge = Challenge(ring_for(hello.world), handshake.nonce())
    sock.sendall(challenge.pack() + handshake.proof(token, b"reducer", hello, challenge))
    received = _receive_exactly(sock, handshake.PROOF_SIZE, until)
    if not handshake.proves(token, b"worker", hello, challenge, received):
        raise ValueError("the worker's proof does not match the job's token")
    return hello


def culprit_of(index: int, reducers: int) -> Culprit:
    """Return the participant behind ``index``: a reducer of pool 2, or a worker that reduces."""
    if index < reducers:
        return Culprit(Kind.REDUCER, index)
    return Culprit(Kind.WORKER, index - reducers)


def _connect(
    address: Address, index: int, group: Group, culprit: Culprit, until: float
) -> ReducerConnection:
    """Try once to connect; ``OSError`` if another attempt may succeed."""
    left = max(RETRY_S, until - time.monotonic())
    sock = socket.create_connection(address, min(handshake.DEADLINE_S, left))
    try:
        ring = _authenticate(sock, index, group)
        return ReducerConnection(Link(sock, group.timeout), ring, culprit)
    except BaseException:
        sock.close()
        raise


def _authenticate(sock: socket.socket, index: int, group: Group) -> int:
    """Run the worker's side of the handshake; return the bytes of its ring at the reducer."""
    until = time.monotonic() + handshake.DEADLINE_S
    low, high = handshake.TIMEOUT_MS
    timeout_ms = max(low, min(high, int(group.timeout * 1000)))
    hello = Hello(index, group.epoch, group.rank, group.world, timeout_ms, handshake.nonce())
    sock.sendall(hello.pack())
    answer = _receive_exactly(sock, handshake.CHALLENGE.size + handshake.PROOF_SIZE, until)
    challenge = handshake.parse_challenge(answer[: handshake.CHALLENGE.size])
    received = answer[handshake.CHALLENGE.size :]
    if not handshake.proves(group.token, b"reducer", hello, challenge, received):
        raise ReductionError("the reducer does not hold this job's token")
    sock.sendall(handshake.proof(group.token, b"worker", hello, challenge))
    return challenge.ring


def _receive_exactly(sock: socket.socket, nbytes: int, until: float) -> bytes:
    """Receive ``nbytes`` bytes before the time ``until`` from a peer not yet authenticated."""
    data = b""
    while len(data) < nbytes:
        sock.settimeout(max(0.001, until - time.monotonic()))
        more = sock.recv(nbytes - len(data))
        if not more:
            raise ConnectionResetError("the connection was closed")
        data += more
    return data
