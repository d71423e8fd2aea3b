"""Finds free ports of the loopback address for the replicas of one job.

A replica of several processes needs several consecutive ports and gets the number of the first.

No process can reserve a port for another program.  So the ports are below the range from which the
kernel takes ports for outgoing connections.  Below that range, a program hardly ever takes a port
before the replica binds it.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache

from trainshed.model.faults import EngineFault

PORT_MAX = 65535
_LOW, _HIGH = 15000, 32000  # Linux uses 32768 and above (ip_local_port_range)
_TRIES = 2000
_SEED_BYTES = 4


def free_runs(widths: Sequence[int], start: int | None = None) -> tuple[int, ...]:
    """Find a run of free ports for each width; return the first port of each run.

    A run is ``width`` consecutive ports.  With ``start``, all runs together are consecutive from
    that port, as gcloud's ``--start-port`` documents (docs/sources/gcloud.md 9.1).  Raises
    EngineFault if a port from ``start`` is in use, or if there are not enough free ports.
    """
    if start is None:
        return _search(widths)
    ports = _check_consecutive(sum(widths), start)
    return tuple(ports[sum(widths[:index])] for index in range(len(widths)))


def _check_consecutive(count: int, start: int) -> tuple[int, ...]:
    ports = tuple(range(start, start + count))
    start_max = PORT_MAX - count + 1
    if not 1 <= start <= start_max:
        raise EngineFault(
            f"--start-port must be from 1 to {start_max} for a job with {count} ports, got {start}"
        )
    for port in ports:
        if not is_free(port):
            raise EngineFault(
                f"port {port} is in use (the job needs {count} from {start}); "
                "choose another --start-port"
            )
    return ports


def _search(widths: Sequence[int]) -> tuple[int, ...]:
    starts: list[int] = []
    run: list[int] = []
    for port in _candidates():
        if len(starts) == len(widths):
            return tuple(starts)
        before = run if run[-1:] == [port - 1] else []
        run = [*before, port] if is_free(port) else []
        if len(run) == widths[len(starts)]:
            starts.append(run[0])
            run = []
    message = f"cannot find {sum(widths)} free ports between {_LOW} and {_HIGH}; set --start-port"
    raise EngineFault(message)


def _candidates() -> Iterator[int]:
    """Yield consecutive ports from a random port on, so that two callers rarely get the same."""
    first = int.from_bytes(os.urandom(_SEED_BYTES), "big") % (_HIGH - _LOW)
    for step in range(_TRIES):
        yield _LOW + (first + step) % (_HIGH - _LOW)


def is_free(port: int) -> bool:
    """Return whether a program can bind the port on the loopback, in IPv4 and, if used, IPv6."""
    with ExitStack() as sockets:
        return all(
            _try_bind(family, address, port, sockets)
            for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
            if family == socket.AF_INET or _has_ipv6()
        )


def _try_bind(family: socket.AddressFamily, address: str, port: int, sockets: ExitStack) -> bool:
    probe = sockets.enter_context(socket.socket(family, socket.SOCK_STREAM))
    # as servers do: a port whose last connection is in TIME_WAIT is free
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((address, port))
    except OSError:
        return False
    return True


@cache
def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
