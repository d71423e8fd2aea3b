"""How a worker comes to a reducer: connects, proves itself, and waits until all have come."""

from __future__ import annotations

import socket
import time
from typing import NamedTuple

from trainshed_trainer.reduction import handshake
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.frames import Frame, parse_error
from trainshed_trainer.reduction.handshake import Hello
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


def reach(address: Address, index: int, group: Group, reducers: int) -> Reached:
    """Connect to the reducer at ``index``; :class:`ReductionError` if it cannot be."""
    culprit = culprit_of(index, reducers)
    until = time.monotonic() + group.join_timeout
    sock = _connected(address, until, group, culprit)
    try:
        ring = _proven(sock, index, group)
    except (OSError, ReductionError) as error:
        sock.close()
        why = "the token or the version differs" if isinstance(error, OSError) else str(error)
        raise ReductionError(
            f"{culprit} at {address[0]}:{address[1]} refused worker {group.rank}: {why}",
            blame=culprit,
        ) from None
    return Reached(Link(sock, group.timeout), ring, culprit)


def await_ready(reached: Reached, until: float) -> None:
    """Return when every worker has come to this reducer."""
    link, _, culprit = reached
    try:
        while True:
            frame, nbytes = link.read_head()
            body = link.read(nbytes)
            if frame is Frame.READY:
                return
            if frame is Frame.ERROR:
                raise parse_error(body)
            if time.monotonic() > until:
                raise ReductionError(f"{culprit} has waited for all workers in vain")
    except (OSError, ValueError) as error:
        raise ReductionError(f"{culprit} is lost: {error}", blame=culprit) from None


def culprit_of(index: int, reducers: int) -> Culprit:
    """Whom connection ``index`` leads to: a reducer of pool 2, or a worker that reduces too."""
    if index < reducers:
        return Culprit(Kind.REDUCER, index)
    return Culprit(Kind.WORKER, index - reducers)


def _connected(address: Address, until: float, group: Group, culprit: Culprit) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address, max(0.1, min(5.0, until - time.monotonic())))
        except OSError as error:
            if time.monotonic() > until:
                raise ReductionError(
                    f"worker {group.rank} cannot reach {culprit} at {address[0]}:{address[1]}"
                    f" within {group.join_timeout:g} s: {error}",
                    blame=culprit,
                ) from None
        time.sleep(RETRY_S)


def _proven(sock: socket.socket, index: int, group: Group) -> int:
    """The worker's side of the handshake; the ring that the reducer has for each worker."""
    sock.settimeout(handshake.DEADLINE_S)
    timeout_ms = int(group.timeout * 1000)
    hello = Hello(index, group.epoch, group.rank, group.world, timeout_ms, handshake.nonce())
    sock.sendall(hello.pack())
    answer = _exactly(sock, handshake.CHALLENGE.size + handshake.PROOF_SIZE)
    challenge = handshake.parse_challenge(answer[: handshake.CHALLENGE.size])
    given = answer[handshake.CHALLENGE.size :]
    if not handshake.proves(group.token, b"reducer", hello, challenge, given):
        raise ReductionError("it does not hold this job's token")
    sock.sendall(handshake.proof(group.token, b"worker", hello, challenge))
    return challenge.ring


def _exactly(sock: socket.socket, nbytes: int) -> bytes:
    data = b""
    while len(data) < nbytes:
        more = sock.recv(nbytes - len(data))
        if not more:
            raise ConnectionResetError("the connection was closed")
        data += more
    return data
