"""Finds the process that listens at a port of this machine."""

import pwd
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trainshed.engines.processes import tree
from trainshed.engines.processes.socket_table import held_inodes, read_sockets


class ListeningSocket(NamedTuple):
    """A socket that listens."""

    uid: int
    """Its user's number."""
    pid: int | None
    """A process that has it open; None where no process that has it is ours to look at."""

    def __str__(self) -> str:
        """Name the process and its program, or else its user."""
        if self.pid is None:
            return f"a process of the user {_user_name(self.uid)}"
        with suppress(OSError):
            return f"process {self.pid} ({tree.read(f'/proc/{self.pid}/comm').strip()})"
        return f"process {self.pid}"


def find_listener(port: int) -> ListeningSocket | None:
    """Return what listens at a port, whatever its address; None where nothing does."""
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
