"""Passes the listening sockets of an attempt's network to the server, which accepts connections.

Each socket is bound in a network namespace of the attempt.  The supervisor keeps the sockets open,
so a connection that arrives while no server runs waits for the next server.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trainshed.engines.processes.descriptors import to_sockets

#: The value of ``do`` in a message that requests the sockets.
HAND_OVER: Final = "listeners"
#: The two kinds of messages of the answer: some sockets; all sockets were sent.
SOCKETS, DONE = b"s", b"d"
#: Descriptors in one message; the kernel's limit is 253.
_DESCRIPTORS_MAX: Final = 200
#: Maximum of open connections to servers.  A closed connection shows a server the network's end.
_SERVERS_MAX: Final = 4


class SocketHandover:
    """Answers requests for the listening sockets of one attempt."""

    def __init__(self, listeners: Callable[[], Sequence[int] | None]) -> None:
        """``listeners`` returns the descriptors, or None while the sockets do not exist yet."""
        self._listeners = listeners
        self._servers: list[socket.socket] = []

    def answer(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Answer a message that requests the sockets; ignore other messages.

        The first descriptor of the message is a connection to the server, which gets the answer.
        The connection stays open until the end of the network.  Raises OSError.
        """
        listeners = self._listeners()
        if message.get("do") != HAND_OVER or not descriptors or listeners is None:
            return
        (server,) = to_sockets([os.dup(descriptors[0])])
        server.setblocking(False)  # a server that does not read sends another request later
        try:
            for first in range(0, len(listeners), _DESCRIPTORS_MAX):
                part = listeners[first : first + _DESCRIPTORS_MAX]
                socket.send_fds(server, [SOCKETS], part)
            server.send(DONE)
        except OSError:
            server.close()
            raise
        self._servers.append(server)
        for old_server in self._servers[:-_SERVERS_MAX]:
            old_server.close()
        del self._servers[:-_SERVERS_MAX]
