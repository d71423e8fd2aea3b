"""TCP connections on which every wait has a timeout (docs/sources/reduction.md 5).

The kernel's timers (SO_RCVTIMEO, TCP_USER_TIMEOUT, keepalive) bound every wait, so that reads are
plain blocking calls; a Python timeout would add a poll to each read.  Both sides send heartbeats,
so silence for the whole timeout means that the other side or the network has failed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
import weakref
from typing import Tuple

from trainshed_trainer.reduction.frames import HEAD, Frame, parse_head

Address = Tuple[str, int]
#: The number of this option on Linux; some builds of Python's socket module do not have the name.
TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)
#: Seconds of silence before the first keepalive probe, and between the three probes.
KEEPALIVE_S = 5
#: Bytes that are received and dropped at a time.
DRAIN = 64 << 10


#: Sockets that a forked child closes: while a child holds one, the peer does not notice the end of
#: the parent.
_OPEN: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_in_child() -> None:
    for sock in list(_OPEN):
        sock.close()


os.register_at_fork(after_in_child=_close_in_child)


def close_in_children(sock: socket.socket) -> None:
    """Close ``sock`` in every process that this process forks, such as a data loader's worker."""
    _OPEN.add(sock)


class Silence(ConnectionError):
    """No byte was received or sent for the whole timeout."""


class Link:
    """One connection; one thread reads and one writes."""

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        """Take over ``sock``; ``timeout`` bounds every wait, in seconds."""
        close_in_children(sock)
        self._sock = sock
        self._head = bytearray(HEAD.size)
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        self.set_timeout(timeout)

    def set_timeout(self, timeout: float) -> None:
        """Bound every wait by ``timeout`` seconds."""
        whole, part = divmod(int(timeout * 1e6), 10**6)
        value = struct.pack("@ll", whole, part)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
        self._sock.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, max(1, int(timeout * 1000)))

    def fill(self, view: memoryview) -> None:
        """Receive exactly as many bytes as ``view`` holds."""
        while view.nbytes:
            view = view[self.receive(view, socket.MSG_WAITALL) :]

    def receive(self, view: memoryview, flags: int = 0) -> int:
        """Receive some bytes into ``view``; return how many."""
        try:
            count = self._sock.recv_into(view, 0, flags)
        except (BlockingIOError, TimeoutError):
            raise Silence("no data was received within the timeout") from None
        if not count:
            raise ConnectionResetError("the connection was closed")
        return count

    def read_head(self) -> tuple[Frame, int]:
        """Return the next frame's kind and length; ``ValueError`` if it is malformed."""
        self.fill(memoryview(self._head))
        return parse_head(self._head)

    def read(self, nbytes: int) -> bytes:
        """Receive ``nbytes`` bytes into a new buffer; for short contents."""
        body = bytearray(nbytes)
        self.fill(memoryview(body))
        return bytes(body)

    def send(self, front: bytes, view: memoryview | None = None) -> None:
        """Send ``front`` and then ``view``, with one system call if the kernel accepts it."""
        try:
            parts = [memoryview(front)] if view is None else [memoryview(front), view]
            left = sum(part.nbytes for part in parts)
            sent = self._sock.sendmsg(parts)
            while sent < left:
                left -= sent
                parts = _drop_sent(parts, sent)
                sent = self._sock.sendmsg(parts)
        except (BlockingIOError, TimeoutError):
            raise Silence("no data was sent within the timeout") from None

    def local_address(self) -> Address:
        """Return the address of this side."""
        name = self._sock.getsockname()
        return str(name[0]), int(name[1])

    def finish_sending(self) -> None:
        """Close the sending direction; the other side may still send."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def drain(self, seconds: float) -> None:
        """Receive and drop bytes until the other side closes, for ``seconds`` at most.

        The kernel resets a connection that is closed with bytes unread, and data that was sent last
        may then be lost.
        """
        until, waste = time.monotonic() + seconds, memoryview(bytearray(DRAIN))
        with contextlib.suppress(OSError):
            self.set_timeout(seconds)
            while time.monotonic() < until:
                self.receive(waste)

    def skip(self, nbytes: int) -> None:
        """Receive and drop ``nbytes`` bytes."""
        waste = memoryview(bytearray(min(nbytes, DRAIN)))
        while nbytes:
            nbytes -= self.receive(waste[: min(nbytes, DRAIN)])

    def shutdown(self) -> None:
        """Shut both directions; threads that wait on this connection return."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the descriptor; no thread may use it any more."""
        self._sock.close()


def _drop_sent(parts: list[memoryview], sent: int) -> list[memoryview]:
    """Return the rest of ``parts`` after the first ``sent`` bytes."""
    left = []
    for part in parts:
        if sent < part.nbytes:
            left.append(part[sent:])
        sent = max(0, sent - part.nbytes)
    return left
