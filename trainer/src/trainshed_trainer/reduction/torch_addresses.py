"""Finds the address for a worker's own reducer, at which other workers can reach it."""

from __future__ import annotations

import ipaddress
import socket
from typing import Mapping, Sequence

from trainshed_trainer import contract
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.links import Address

#: A port for looking up a route in the kernel; no packet is sent.
DISCARD = 9


def own_address(environ: Mapping[str, str], reducers: Sequence[Address]) -> str:
    """Find the address of this worker without knowing the other workers.

    It is the value of TRAINSHED_REDUCTION_HOST, or the local address of the route to the first
    reducer or to torch's master, or the address of the host's name.
    """
    host = environ.get(contract.TRAINSHED_REDUCTION_HOST)
    if host:
        return host
    targets = [host for host, _ in reducers[:1]]
    if environ.get(contract.MASTER_ADDR):
        targets.append(environ[contract.MASTER_ADDR])
    addresses = (_local_address(target) for target in targets)
    return next((address for address in addresses if address), None) or _address_of_hostname()


def choose_reachable(address: str, others: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the address of this worker for the workers at ``others``.

    It is ``address``, unless that is a loopback address and another worker's is not: the name of
    torch's master often resolves to a loopback address on the master itself.
    """
    if environ.get(contract.TRAINSHED_REDUCTION_HOST) or not is_loopback(address):
        return address
    target = next((other for other in others if not is_loopback(other)), None)
    return (_local_address(target) if target else None) or address


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen_on(host: str) -> socket.socket:
    """Bind a socket to a free port of ``host`` only (docs/sources/reduction.md 6)."""
    try:
        family, kind, _, _, name = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind)
    except OSError as error:
        raise _listen_error(host, error) from None
    try:
        sock.bind(name)
    except OSError as error:
        sock.close()
        raise _listen_error(host, error) from None
    return sock


def _listen_error(host: str, error: OSError) -> ReductionError:
    return ReductionError(
        f"this worker cannot listen on {host} ({error}); set {contract.TRAINSHED_REDUCTION_HOST}"
        " to another of its addresses"
    )


def _local_address(host: str) -> str | None:
    """Return the local address of the route to ``host``; ``None`` if there is no route."""
    try:
        family, kind, _, _, name = socket.getaddrinfo(host, DISCARD, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(name)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _address_of_hostname() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
