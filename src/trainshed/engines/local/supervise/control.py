"""Takes orders to stop: from whoever connects to the attempt's socket, and from its command.

An order is one JSON line.  The order itself comes along, for the case that no disk had room for it.
Nobody who connects can make the supervisor wait: it reads only what the kernel has, and the one
that has been silent the longest makes room for a new one.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

from trainshed.engines.local.attempts.folder import AttemptFolder
from trainshed.engines.local.supervise.attempt import Attempt
from trainshed.engines.local.supervise.loop import Loop
from trainshed.engines.local.supervise.tether import OrderReader

_CLIENTS_MAX: Final = 16
_PRIVATE: Final = 0o177


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
        self._clients: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listen()
        except OSError as error:
            attempt.output.note(f"The supervisor cannot be asked: {error.strerror}.", "WARNING")
            return
        loop.on_readable(self._listener, self._accept)

    def close(self) -> None:
        """Listen to nobody any more."""
        for client in list(self._clients):
            self._hang_up(client)
        with suppress(KeyError, ValueError):
            self._loop.forget(self._listener)
        self._listener.close()
        with suppress(OSError):
            os.unlink(self._path)

    def _listen(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        before = os.umask(_PRIVATE)
        try:
            with short_path(self._path) as path:
                self._listener.bind(path)
        finally:
            os.umask(before)
        self._listener.listen(_CLIENTS_MAX)
        self._listener.setblocking(False)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        if len(self._clients) >= _CLIENTS_MAX:
            self._hang_up(self._clients[0])
        client.setblocking(False)
        self._clients.append(client)
        reader = OrderReader(client.fileno(), self._attempt.obey, self._look)
        self._loop.on_readable(client, partial(self._read, client, reader))

    def _read(self, client: socket.socket, reader: OrderReader) -> None:
        if not reader.read():
            self._hang_up(client)

    def _hang_up(self, client: socket.socket) -> None:
        self._loop.forget(client)
        client.close()
        self._clients.remove(client)


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """The same place under a name that fits into a socket's address, however deep it lies."""
    folder, _, name = path.rpartition("/")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
