"""Where a worker's own reducer listens: on the one address by which the other workers reach it."""

from __future__ import annotations

import ipaddress
import socket
from typing import Mapping, Sequence

from trainshed_trainer import contract
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.links import Address

#: A port for asking the kernel for a route; nothing is sent there.
DISCARD = 9


def own_address(environ: Mapping[str, str], reducers: Sequence[Address]) -> str:
    """The address of this worker as it sees it alone.

    The one that TRAINSHED_REDUCTION_HOST names, or the local end of the route to the first reducer,
    or else to torch's master, or else what the host's name stands for.
    """
    named = environ.get(contract.TRAINSHED_REDUCTION_HOST)
    if named:
        return named
    towards = [host for host, _ in reducers[:1]]
    if environ.get(contract.MASTER_ADDR):
        towards.append(environ[contract.MASTER_ADDR])
    ends = (_local_end(host) for host in towards)
    return next((end for end in ends if end), None) or _by_name()


def reachable(mine: str, others: Sequence[str], environ: Mapping[str, str]) -> str:
    """The address of this worker for the others, who are at ``others``.

    It is ``mine``, but where that is a loopback address and theirs is not: the master's own name
    often leads to itself by loopback.
    """
    if environ.get(contract.TRAINSHED_REDUCTION_HOST) or not is_loopback(mine):
        return mine
    elsewhere = next((other for other in others if not is_loopback(other)), None)
    return (_local_end(elsewhere) if elsewhere else None) or mine


def is_loopback(host: str) -> bool:
    """Whether an address leads nowhere but to its own host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listener_on(host: str) -> socket.socket:
    """A socket on a free port of ``host`` only (docs/sources/reduction.md 6)."""
    try:
        family, kind, _, _, name = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind)
    except OSError as error:
        raise _cannot(host, error) from None
    try:
        sock.bind(name)
    except OSError as error:
        sock.close()
        raise _cannot(host, error) from None
    return sock


def _cannot(host: str, error: OSError) -> ReductionError:
    return ReductionError(
        f"this worker cannot listen on {host} ({error}); {contract.TRAINSHED_REDUCTION_HOST} names"
        " another of its addresses"
    )


def _local_end(host: str) -> str | None:
    """The local address of a route; ``None`` where there is no route."""
    try:
        family, kind, _, _, name = socket.getaddrinfo(host, DISCARD, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(name)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _by_name() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
