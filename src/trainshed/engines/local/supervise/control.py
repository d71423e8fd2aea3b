"""Takes orders to stop on the attempt's socket, one message each.

The order itself comes along, for the case that no disk had room for it.  Nobody who sends can make
the supervisor wait: a message is there as a whole or not at all, and one is read a turn.
"""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from trainshed.engines.local.attempts.folder import AttemptFolder, short_path
from trainshed.engines.local.supervise.attempt import Attempt
from trainshed.engines.local.supervise.loop import Loop
from trainshed.engines.local.supervise.tether import take_order

_PRIVATE: Final = 0o177
_MESSAGE_BYTES_MAX: Final = 1 << 18


class Control:
    """The socket of one attempt."""

    def __init__(
        self, loop: Loop, folder: AttemptFolder, attempt: Attempt, look: Callable[[], object]
    ) -> None:
        """Listen, where the file system knows sockets; ``look`` looks for an order to stop."""
        self._loop = loop
        self._path = folder.control
        self._attempt = attempt
        self._look = look
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._bind()
        except OSError as error:
            attempt.output.note(f"The supervisor cannot be asked: {error.strerror}.", "WARNING")
            return
        loop.on_readable(self._socket, self._read)

    def close(self) -> None:
        """Listen to nobody any more."""
        with suppress(KeyError, ValueError):
            self._loop.forget(self._socket)
        self._socket.close()
        with suppress(OSError):
            os.unlink(self._path)

    def _bind(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        before = os.umask(_PRIVATE)
        try:
            with short_path(self._path) as path:
                self._socket.bind(path)
        finally:
            os.umask(before)

    def _read(self) -> None:
        with suppress(OSError):
            take_order(self._socket.recv(_MESSAGE_BYTES_MAX), self._attempt.obey, self._look)
