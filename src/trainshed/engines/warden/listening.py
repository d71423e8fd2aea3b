"""Where wardens reach their launcher, and who of those that call is one.

Nothing that a caller sends is looked at before it has proven that it knows the attempt's secret,
and the launcher closes the connection of a caller that does not do so soon.
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

#: So many may be proving themselves; of more, those that came first are hung up on.
_STRANGERS_MAX: Final = 256
_BACKLOG: Final = 1024
#: What a caller answers: its own nonce, and its proof.
_ANSWER: Final = proof.NONCE + proof.PROOF
#: An address of documentation (RFC 5737): nothing is sent there, but the kernel says by which way.
_FAR: Final = ("192.0.2.1", 9)


class _Stranger(NamedTuple):
    """Who has called, and not proven itself yet."""

    nonce: bytes
    timer: Timer
    came: bytes = b""


class WardenListener:
    """The launcher's socket, and those who have called and not proven themselves yet."""

    def __init__(self, loop: Loop, secret: str, proven: Callable[[socket.socket], object]) -> None:
        """``proven`` gets the connection of each warden.  Raises OSError."""
        self._loop = loop
        self._secret = secret
        self._proven = proven
        self._strangers: dict[socket.socket, _Stranger] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket.bind(("", 0))
        self._socket.listen(_BACKLOG)
        loop.on_readable(self._socket, self._accept)

    def place(self, variable: str) -> str:
        """What wardens get to know (``protocol.LAUNCHER``)."""
        port = self._socket.getsockname()[1]
        return f"{socket.gethostname()};{port};{','.join(own_addresses())};{variable}"

    def close(self) -> None:
        """Stop listening."""
        for stranger in list(self._strangers):
            self._hang_up(stranger)
        self._loop.forget(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        try:
            caller, _ = self._socket.accept()
        except OSError:
            return
        while len(self._strangers) >= _STRANGERS_MAX:
            self._hang_up(next(iter(self._strangers)))
        caller.setblocking(False)
        timer = self._loop.after(PROVE_S, partial(self._hang_up, caller))
        self._strangers[caller] = stranger = _Stranger(proof.new_nonce(), timer)
        self._loop.on_readable(caller, partial(self._hear, caller))
        if not _try_send(caller, stranger.nonce):
            self._hang_up(caller)

    def _hear(self, caller: socket.socket) -> None:
        stranger = self._strangers[caller]
        try:
            data = caller.recv(_ANSWER - len(stranger.came))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        stranger = self._strangers[caller] = stranger._replace(came=stranger.came + data)
        if not data:
            self._hang_up(caller)
        elif len(stranger.came) == _ANSWER:
            self._judge(caller, stranger)

    def _judge(self, caller: socket.socket, stranger: _Stranger) -> None:
        ours = stranger.nonce
        theirs, warden_proof = stranger.came[: proof.NONCE], stranger.came[proof.NONCE :]
        if not is_same(warden_proof, proof.of_warden(self._secret, ours, theirs)):
            self._hang_up(caller)
            return
        if not _try_send(caller, proof.of_launcher(self._secret, ours, theirs)):
            self._hang_up(caller)
            return
        del self._strangers[caller]
        stranger.timer.cancel()
        self._loop.forget(caller)
        self._proven(caller)

    def _hang_up(self, caller: socket.socket) -> None:
        stranger = self._strangers.pop(caller, None)
        if stranger is not None:
            stranger.timer.cancel()
            self._loop.forget(caller)
            caller.close()


def _try_send(caller: socket.socket, data: bytes) -> bool:
    """Whether it went; so little goes at once."""
    try:
        return caller.send(data) == len(data)
    except OSError:
        return False


def own_addresses() -> tuple[str, ...]:
    """By what others may reach this machine, the likeliest first."""
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
