"""Which process listens at a port of this machine."""

import pwd
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.processes import tree
from trainshed.engines.processes.peers import holds_socket

#: Columns and the state of a listening socket in /proc/net/tcp.
_LOCAL, _STATE, _UID, _INODE = 1, 3, 7, 9
_LISTEN: Final = "0A"
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


class Listener(NamedTuple):
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


def find_listener(port: int) -> Listener | None:
    """Return what listens at a port, whatever its address; None where nothing does."""
    for uid, inode in _listening(port):
        wanted = f"socket:[{inode}]"
        pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
        return Listener(uid, next((pid for pid in pids if holds_socket(pid, wanted)), None))
    return None


def ancestors(pid: int) -> Iterator[int]:
    """Yield a process, its parent, and so on, as far as they can be seen."""
    with suppress(OSError):
        while pid > 0:
            yield pid
            pid = tree.parent_of(pid)


def _listening(port: int) -> Iterator[tuple[int, str]]:
    """Yield the user and the inode of each socket that listens at a port."""
    for table in _TABLES:
        with suppress(OSError):
            for line in tree.read(table).splitlines()[1:]:
                columns = line.split()
                if columns[_STATE] == _LISTEN and columns[_LOCAL].endswith(f":{port:04X}"):
                    yield int(columns[_UID]), columns[_INODE]


def _user_name(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)
