"""The holder: a process that keeps the listening sockets of one data directory.

A server starts it, gives it a duplicate of each listening socket, and stays connected to it.  The
end of that connection is the end of the server.  The next server takes the sockets back.  A socket
is closed when no server uses it and no attempt lives; the holder ends when it has none left.

Messages are JSON, one a packet, with at most one descriptor.  A client must send the secret of the
data directory, a file that no job can read.  A job that runs as the server's user can connect too,
because Landlock does not cover connections to sockets in the file system.  The holder closes such
connections at once, so that they do not keep a server out.
"""
# a server starts it each time: it imports no more than a supervisor does

import json
import select
import signal
import socket
import struct
import time
from typing import Any, Final, NamedTuple

from trainshed.engines.processes import descriptors as descriptor_passing
from trainshed.engines.processes.secret import is_same
from trainshed.engines.supervise.kernel import senders
from trainshed.service.ports.attempts import living_attempt

#: The requests to a holder: the value of ``do`` in a message.
HELLO, KEEP, TAKE, END = "hello", "keep", "take", "end"
#: Seconds between checks whether an attempt lives, while no server uses a socket.
LOOK_S: Final = 60.0
MESSAGE_BYTES_MAX: Final = 1 << 16
_BACKLOG: Final = 128
#: How long a server may leave an answer unread.
_SEND_S_MAX: Final = 1.0
#: Connections at once, so that a program that only connects takes no descriptor from servers.
_CLIENTS_MAX: Final = 32
#: struct ucred of unix(7): pid, uid, gid.
_CREDENTIALS: Final = "iII"


class HeldSocket(NamedTuple):
    role: str
    """The purpose of the socket, such as ``api``."""
    socket: socket.socket

    def fits(self, role: str, host: str, port: int) -> bool:
        """Whether it matches a request; port 0 is any."""
        return role == self.role and is_bound_to(self.socket, host, port)


def is_bound_to(listener: socket.socket, host: str, port: int) -> bool:
    """Whether a socket listens on an address; port 0 is any.  Raises OSError."""
    bound = listener.getsockname()
    return (bound[0], port or bound[1]) == (host, bound[1])


def send(channel: socket.socket, message: dict[str, Any], *sockets: socket.socket) -> None:
    """Send a message, with a duplicate of a socket.  Raises OSError."""
    data = json.dumps(message).encode()
    socket.send_fds(
        channel, [data], [listener.fileno() for listener in sockets], socket.MSG_NOSIGNAL
    )


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[socket.socket]]:
    """Receive a message and its socket.

    Raises OSError at the end of the connection, ValueError or TypeError for a malformed message.
    """
    data, descriptors = descriptor_passing.receive(channel, MESSAGE_BYTES_MAX, 1)
    sockets = descriptor_passing.to_sockets(descriptors)
    if not data:
        raise ConnectionAbortedError
    message = json.loads(data)
    if not isinstance(message, dict):
        raise TypeError(message)
    return message, sockets


def peer_of(channel: socket.socket) -> int:
    """Return the process at the other end, as the kernel reports it.  Raises OSError."""
    size = struct.calcsize(_CREDENTIALS)
    data = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack(_CREDENTIALS, data)[0])


class PortHolder:
    """The process's state: the sockets, and the servers that are connected."""

    def __init__(self, listener: socket.socket, first: socket.socket) -> None:
        """``listener`` is bound and not listening; ``first`` is the server that started this.

        The first message of ``first`` has the secret and the data directory.
        """
        hello, _ = receive(first)
        first.settimeout(_SEND_S_MAX)
        self._secret = str(hello["secret"])
        self._jobs = f"{hello['data_dir']}/jobs"
        self._held: dict[HeldSocket, socket.socket | None] = {}
        self._unidentified: list[socket.socket] = []
        self._servers: list[socket.socket] = [first]
        self._look_s = time.monotonic() + LOOK_S
        self._lived = ""
        # listen() stores this process as the peer that connecting servers see (SO_PEERCRED)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._listener = listener

    def run(self) -> None:
        """Hold sockets until none is left and no server is connected."""
        while self._held or self._servers:
            for ready in self._wait():
                if ready is self._listener:
                    self._accept()
                elif ready in self._unidentified or ready in self._servers:  # not closed meanwhile
                    self._answer(ready)
            if time.monotonic() >= self._look_s:
                self._close_unused()

    def _wait(self) -> list[socket.socket]:
        channels = [self._listener, *self._unidentified, *self._servers]
        poll = select.poll()
        for channel in channels:
            poll.register(channel, select.POLLIN)
        wait_s = max(0.0, self._look_s - time.monotonic())
        ready = {descriptor for descriptor, _ in poll.poll(wait_s * 1000 + 1)}
        return [channel for channel in channels if channel.fileno() in ready]

    def _accept(self) -> None:
        """Accept at most as many connections as the queue holds, so that servers get their turn."""
        for _ in range(_BACKLOG):
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if senders.is_of_job(peer_of(client)):
                client.close()
            else:
                self._welcome(client)

    def _welcome(self, client: socket.socket) -> None:
        client.settimeout(_SEND_S_MAX)
        if len(self._unidentified) >= _CLIENTS_MAX:
            self._unidentified.pop(0).close()
        self._unidentified.append(client)

    def _answer(self, client: socket.socket) -> None:
        """Perform a message; a client with a malformed message is disconnected."""
        try:
            message, sockets = receive(client)
            if client in self._unidentified:
                self._recognise(client, message)
            else:
                self._perform(client, message, sockets)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self._forget(client)

    def _recognise(self, client: socket.socket, message: dict[str, Any]) -> None:
        """Check the secret of a client.  Raises ValueError for a wrong secret."""
        if not is_same(str(message["secret"]).encode(), self._secret.encode()):
            raise ValueError
        self._unidentified.remove(client)
        self._servers.append(client)
        send(client, {})

    def _perform(
        self, client: socket.socket, message: dict[str, Any], sockets: list[socket.socket]
    ) -> None:
        if message["do"] == KEEP:
            self._held[HeldSocket(str(message["role"]), *sockets)] = client
        elif message["do"] == TAKE:
            address = str(message["role"]), str(message["host"]), int(message["port"])
            free = [held for held, user in self._held.items() if user is None]
            match = [held for held in free if held.fits(*address)][:1]
            self._held.update(dict.fromkeys(match, client))
            send(client, {}, *(held.socket for held in match))
        elif message["do"] == END:
            self._release(client)
            self._close_unused()
            send(client, {"held": len(self._held)})

    def _forget(self, client: socket.socket) -> None:
        """Forget a disconnected client; its sockets wait for the next server."""
        if client in self._unidentified:
            self._unidentified.remove(client)
        else:
            self._servers.remove(client)
            self._release(client)
            self._look_s = time.monotonic() + LOOK_S
        client.close()

    def _release(self, client: socket.socket) -> None:
        self._held.update({held: None for held, user in self._held.items() if user is client})

    def _close_unused(self) -> None:
        """Close the sockets that no server uses, unless an attempt lives."""
        self._look_s = time.monotonic() + LOOK_S
        free = [held for held, user in self._held.items() if user is None]
        self._lived = living_attempt(self._jobs, self._lived) if free else ""
        if self._lived:
            return
        for held in free:
            del self._held[held]
            held.socket.close()


def main() -> None:
    """Run in a process with the bound socket as standard input, and the server as output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    PortHolder(socket.socket(fileno=0), socket.socket(fileno=1)).run()
