"""Hands the listening sockets of an attempt's network to a server, which answers on them.

They are made in the network of the attempt, where no server is, and this process keeps them: what
connects while no server is there waits for the next one.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trainshed.engines.processes.descriptors import to_sockets

#: The word of a message that asks for the sockets, and the two kinds of messages of the answer.
HAND_OVER: Final = "listeners"
SOCKETS, DONE = b"s", b"d"
#: Descriptors of one message; the kernel takes 253.
_DESCRIPTORS_MAX: Final = 200
#: How many connections are kept, whose end tells a server that the network has ended.
_SERVERS_MAX: Final = 4


class SocketHandover:
    """The sockets of one attempt."""

    def __init__(self, listeners: Callable[[], Sequence[int] | None]) -> None:
        """``listeners`` returns their descriptors; None: they are not made yet."""
        self._listeners = listeners
        self._servers: list[socket.socket] = []

    def answer(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Answer a message that asks for the sockets, by the connection that came with it.

        The connection stays open: its end shows the server the end of the network.  Raises
        OSError.
        """
        listeners = self._listeners()
        if message.get("do") != HAND_OVER or not descriptors or listeners is None:
            return
        (server,) = to_sockets([os.dup(descriptors[0])])
        server.setblocking(False)  # a server that does not read asks again
        try:
            for first in range(0, len(listeners), _DESCRIPTORS_MAX):
                part = listeners[first : first + _DESCRIPTORS_MAX]
                socket.send_fds(server, [SOCKETS], part)
            server.send(DONE)
        except OSError:
            server.close()
            raise
        self._servers.append(server)
        for old in self._servers[:-_SERVERS_MAX]:
            old.close()
        del self._servers[:-_SERVERS_MAX]
