"""The command ``trainshed-reducer``: sums gradients for the workers of one job until it ends.

The service runs this command for every reducer of a job, and ends the command with the job.  A user
can start a reducer on any machine with the token of a job.  If the setup is faulty, the command
prints one line to stderr and ends with exit status 2, before a worker can connect.
"""

import errno
import importlib.util
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from trainshed.reduction.processes import Endings, run_all, serve
from trainshed.reduction.settings import (
    PORT_MAX,
    ListenAddress,
    ReducerSettings,
    ReducerSetupError,
    settings_of,
)
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.places import token_of

_UNUSABLE: Final = 2


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run a reducer to its end; return its exit status."""
    settings = settings_of(argv)
    try:
        return _run(settings, environ)
    except (ReducerSetupError, ReductionError) as fault:
        sys.stderr.write(f"trainshed-reducer: {fault}\n")
        return _UNUSABLE


def _run(settings: ReducerSettings, environ: Mapping[str, str]) -> int:
    if importlib.util.find_spec("numpy") is None:
        raise ReducerSetupError(f"{sys.executable} lacks numpy; install it with: pip install numpy")
    token = token_of(environ)
    address = settings.place(environ)
    endings = Endings(children=settings.procs > 1)  # before workers can connect
    listeners = listeners_of(address, settings.procs)
    if settings.procs == 1:
        return serve(listeners[0], settings, token, endings=endings, index=address.index)
    return run_all(listeners, settings, token, endings=endings, index=address.index)


def listeners_of(address: ListenAddress, procs: int) -> list[socket.socket]:
    """Open one listening socket per process, on consecutive ports.  Raises ReducerSetupError.

    All are bound before a process starts, so that a port in use leaves nothing to clean up.
    """
    if address.port + procs - 1 > PORT_MAX:
        raise ReducerSetupError(
            f"--port must be at most {PORT_MAX + 1 - procs} for {procs} processes, "
            f"got {address.port}"
        )
    listeners: list[socket.socket] = []
    try:
        # extended one by one, so that the sockets bound before an error are closed
        listeners.extend(_listener(address.host, address.port + proc) for proc in range(procs))
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except socket.gaierror as error:
        message = f"cannot resolve {host}: {error.strerror}; give an address with --host"
        raise ReducerSetupError(message) from None
    except OSError as error:
        raise ReducerSetupError(_reason(error, host, port)) from None


def _reason(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use; choose another with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; choose one with --host"
    return f"cannot listen on port {port} of {host}: {error.strerror}"
