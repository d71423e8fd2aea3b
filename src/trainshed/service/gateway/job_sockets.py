"""Tracks the gateway's open sockets in the networks of jobs.

A socket belongs to the network that it was made in, also when another process accepts on it.  So
the listener alone identifies the caller, and no search in /proc is needed.
"""

import socket
from typing import NamedTuple, Protocol

from trainshed.model.attempt import AttemptKey


class JobSocket(NamedTuple):
    """A socket that listens in the network of an attempt."""

    key: AttemptKey | None
    """None: a socket in the machine's network that was opened later than the others."""
    socket: socket.socket


class Changes(NamedTuple):
    """Sockets opened and ended since the last call; the caller closes all of them."""

    opened: list[JobSocket]
    ended: list[socket.socket]


class ChangeSource(Protocol):
    """Reports changes (``job_networks``)."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are changes."""

    def take(self) -> Changes:
        """Return what has changed."""


class JobSockets:
    """The consumer's side: the sockets that are open now.  For one thread at a time."""

    def __init__(self, networks: ChangeSource | None) -> None:
        """``networks`` None: no job has a network of its own."""
        self._networks = networks
        self.sockets: dict[socket.socket, AttemptKey | None] = {}

    @property
    def changes(self) -> tuple[ChangeSource, ...]:
        """Return objects to poll for reading before ``update``; none without networks."""
        return () if self._networks is None else (self._networks,)

    def fileno(self) -> int:
        """Return the descriptor to poll; -1 without networks."""
        return -1 if self._networks is None else self._networks.fileno()

    def update(self) -> Changes:
        """Return what has changed; the caller must close the ended sockets."""
        changes = Changes([], []) if self._networks is None else self._networks.take()
        self.sockets.update({opened.socket: opened.key for opened in changes.opened})
        for ended in changes.ended:
            self.sockets.pop(ended, None)
        return changes
