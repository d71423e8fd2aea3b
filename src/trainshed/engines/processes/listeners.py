"""Finds the process that listens on a port of this machine."""

import pwd
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trainshed.engines.processes import tree
from trainshed.engines.processes.socket_table import held_inodes, read_sockets


class ListeningSocket(NamedTuple):
    """A listening socket and its owner."""

    uid: int
    """The number of the socket's user."""
    pid: int | None
    """A process that has the socket open; None: this process may not inspect such processes."""

    def __str__(self) -> str:
        """Return the process and its program as text; without a process, the user."""
        if self.pid is None:
            return f"a process of the user {_user_name(self.uid)}"
        with suppress(OSError):
            return f"process {self.pid} ({tree.read(f'/proc/{self.pid}/comm').strip()})"
        return f"process {self.pid}"


def find_listener(port: int) -> ListeningSocket | None:
    """Return the socket that listens on a port, at any address; None if there is none."""
    for socket in read_sockets():
        if socket.is_listening and socket.local.port == port:
            pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
            holders = (pid for pid in pids if socket.inode in held_inodes(pid))
            return ListeningSocket(socket.uid, next(holders, None))
    return None


def _user_name(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)
