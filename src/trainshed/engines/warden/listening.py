"""Accepts connections of wardens, after each has proven that it knows the attempt's secret.

The launcher reads no message of a caller before this proof.  If the proof does not come in time,
the launcher closes the connection.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from trainshed.engines.processes.secret import is_same
from trainshed.engines.supervise.loop import Loop, Timer
from trainshed.engines.warden import proof
from trainshed.engines.warden.protocol import PROVE_S

#: Limit of callers without a proof.  For one more, the launcher closes the oldest connection.
_CALLERS_MAX: Final = 256
_BACKLOG: Final = 1024
#: The length of a caller's answer in bytes: the nonce and the proof of the caller.
_ANSWER: Final = proof.NONCE + proof.PROOF
#: An address for documentation (RFC 5737).  Connecting a UDP socket to it sends nothing, but makes
#: the kernel select a route and so an address of this machine.
_FAR: Final = ("192.0.2.1", 9)


class _Caller(NamedTuple):
    """A connected program without a proof yet."""

    nonce: bytes
    timer: Timer
    received: bytes = b""


class WardenListener:
    """The launcher's socket, and the connected programs without a proof yet."""

    def __init__(
        self,
        loop: Loop,
        secret: str,
        on_proven: Callable[[socket.socket], object],
        port: int = 0,
    ) -> None:
        """Call ``on_proven`` with each connection of a warden after its proof.

        ``port`` is the TCP port; 0: any free port.  Raises OSError.
        """
        self._loop = loop
        self._secret = secret
        self._on_proven = on_proven
        self._callers: dict[socket.socket, _Caller] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        # connections of an earlier launcher, which have ended, do not keep a given port in use
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(port > 0))
        try:
            self._socket.bind(("", port))
        except OSError:
            self._socket.close()
            raise
        self._socket.listen(_BACKLOG)
        loop.on_readable(self._socket, self._accept)

    def list_addresses(self, variable: str) -> str:
        """Return the launcher's addresses as text for wardens (``launcher_variables.LAUNCHER``)."""
        port = self._socket.getsockname()[1]
        return f"{socket.gethostname()};{port};{','.join(own_addresses())};{variable}"

    def close(self) -> None:
        """Stop listening, and close the connections without a proof."""
        for connection in list(self._callers):
            self._close_caller(connection)
        self._loop.forget(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return
        while len(self._callers) >= _CALLERS_MAX:
            self._close_caller(next(iter(self._callers)))
        connection.setblocking(False)
        timer = self._loop.after(PROVE_S, partial(self._close_caller, connection))
        self._callers[connection] = caller = _Caller(proof.new_nonce(), timer)
        self._loop.on_readable(connection, partial(self._receive, connection))
        if not _try_send(connection, caller.nonce):
            self._close_caller(connection)

    def _receive(self, connection: socket.socket) -> None:
        caller = self._callers[connection]
        try:
            data = connection.recv(_ANSWER - len(caller.received))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        caller = self._callers[connection] = caller._replace(received=caller.received + data)
        if not data:
            self._close_caller(connection)
        elif len(caller.received) == _ANSWER:
            self._check_proof(connection, caller)

    def _check_proof(self, connection: socket.socket, caller: _Caller) -> None:
        nonces = caller.nonce, caller.received[: proof.NONCE]
        warden_proof = caller.received[proof.NONCE :]
        if not is_same(warden_proof, proof.prove_warden(self._secret, *nonces)):
            self._close_caller(connection)
            return
        if not _try_send(connection, proof.prove_launcher(self._secret, *nonces)):
            self._close_caller(connection)
            return
        del self._callers[connection]
        caller.timer.cancel()
        self._loop.forget(connection)
        self._on_proven(connection)

    def _close_caller(self, connection: socket.socket) -> None:
        caller = self._callers.pop(connection, None)
        if caller is not None:
            caller.timer.cancel()
            self._loop.forget(connection)
            connection.close()


def _try_send(connection: socket.socket, data: bytes) -> bool:
    """Send a few bytes with one call; return whether the kernel accepted all."""
    try:
        return connection.send(data) == len(data)
    except OSError:
        return False


def own_addresses() -> tuple[str, ...]:
    """List the addresses and the name of this machine for other machines, the best one first."""
    addresses: dict[str, None] = {}
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_FAR)
        addresses[probe.getsockname()[0]] = None
    name = socket.gethostname()
    with suppress(OSError):
        infos = socket.getaddrinfo(name.encode(), None, socket.AF_INET, socket.SOCK_STREAM)
        addresses.update((str(info[4][0]), None) for info in infos)
    addresses[name] = None
    return tuple(address for address in addresses if not address.startswith("127."))
