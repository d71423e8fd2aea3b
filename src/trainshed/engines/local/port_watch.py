"""Warns jobs that meet at a port of the machine, where they have no networks of their own.

Two jobs with one fixed port and rendezvous train as one world, and both succeed: nothing else would
tell.  The table of sockets is read every few seconds while two attempts run; processes are searched
only for sockets that were not there before.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from trainshed.engines.processes import tree
from trainshed.engines.processes.socket_table import (
    TcpSocket,
    connections,
    holders_of,
    links_of,
    listeners_of_one_port,
    read_sockets,
)
from trainshed.model import trainer_contract
from trainshed.model.attempt import AttemptKey

_LOG = logging.getLogger(__name__)

PAUSE_S: Final = 5.0
_CLOSE_S_MAX: Final = 2.0
#: How often the holders of one pair are looked for: a connection may not be accepted yet.
_LOOKS_MAX: Final = 3
_TASK: Final = f"{trainer_contract.TASK}="
_ADVICE: Final = (
    "Jobs share the network of this machine: use the ports that MASTER_PORT and TF_CONFIG name, or "
    '[isolation] network = "job" in a mode that has it.'
)

#: The supervisors of the attempts that run, by pid.
Running = Callable[[], Mapping[int, AttemptKey]]
#: Adds a warning to the log of an attempt; False: not now.
Warn = Callable[[AttemptKey, str], bool]


class _Pair(NamedTuple):
    """Two sockets that belong together."""

    first: TcpSocket
    second: TcpSocket

    @property
    def inodes(self) -> tuple[int, int]:
        return self.first.inode, self.second.inode

    @property
    def port(self) -> int:
        """The port at which they meet."""
        return self.second.local.port


class Meeting(NamedTuple):
    """Two attempts at one port."""

    first: AttemptKey
    second: AttemptKey
    port: int
    both_listen: bool


class PortWatch:
    """Looks whether processes of two attempts meet at a port, and warns both, once."""

    def __init__(self, running: Running, warn: Warn, pause_s: float = PAUSE_S) -> None:
        """Nothing is looked at before ``start``."""
        self._running = running
        self._warn = warn
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._looks: dict[tuple[int, int], int] = {}
        self._warned: set[Meeting] = set()

    def start(self) -> None:
        """Begin; again is nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="port-watch", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S_MAX)
            self._thread = None

    def look(self) -> None:
        """Look once."""
        supervisors = self._running()
        self._warned = {meeting for meeting in self._warned if _lives(meeting, supervisors)}
        if len(supervisors) < 2:  # noqa: PLR2004 - one alone meets no other
            return
        pairs = self._new_pairs(read_sockets())
        if not pairs:
            return
        inodes = {inode for pair in pairs for inode in pair.inodes}
        holders = holders_of(inodes, supervisors)
        for pair in pairs:
            if all(inode in holders for inode in pair.inodes):
                self._looks[pair.inodes] = _LOOKS_MAX
                self._judge(pair, *(holders[inode] for inode in pair.inodes))

    def _work(self) -> None:
        while not self._stop.wait(self._pause_s):
            try:
                self.look()
            except Exception:  # noqa: BLE001 - it looks again
                _LOG.warning("cannot look at the ports of jobs", exc_info=True)

    def _new_pairs(self, sockets: list[TcpSocket]) -> list[_Pair]:
        """Pairs whose holders are not known yet, without those of this process."""
        own = set(_own_inodes())
        sockets = [socket for socket in sockets if socket.inode not in own]
        found = [_Pair(*pair) for pair in _pairs(sockets)]
        self._looks = {pair.inodes: self._looks.get(pair.inodes, 0) + 1 for pair in found}
        return [pair for pair in found if self._looks[pair.inodes] <= _LOOKS_MAX]

    def _judge(
        self, pair: _Pair, first: tuple[int, AttemptKey], second: tuple[int, AttemptKey]
    ) -> None:
        (one_pid, one), (other_pid, other) = first, second
        meeting = Meeting(one, other, pair.port, pair.first.is_listening)
        if one == other or meeting in self._warned:
            return
        texts = _texts(meeting, _task_of(one_pid), _task_of(other_pid))
        self._warned.add(meeting)
        _LOG.warning("the attempts %s and %s meet at port %d", one, other, pair.port)
        for key, text in zip((one, other), texts, strict=True):
            if not self._warn(key, text):
                _LOG.warning("cannot add a line to the log of the attempt %s", key)


def _pairs(sockets: list[TcpSocket]) -> Iterator[tuple[TcpSocket, TcpSocket]]:
    yield from connections(sockets)
    yield from listeners_of_one_port(sockets)


def _texts(meeting: Meeting, first: str, second: str) -> tuple[str, str]:
    """The warning of each of two jobs; neither learns the name of the other."""
    port = meeting.port
    if meeting.both_listen:
        words = f"listens on port {port}, and so does another job: each gets connections of both."
        return f"{first} {words} {_ADVICE}", f"{second} {words} {_ADVICE}"
    return (
        f"{first} is connected to port {port}, on which another job listens. {_ADVICE}",
        f"Another job is connected to port {port}, on which {second} listens. {_ADVICE}",
    )


def _task_of(pid: int) -> str:
    """The replica of a process, by its variables."""
    with suppress(OSError):
        for text in tree.read(f"/proc/{pid}/environ").split("\0"):
            if text.startswith(_TASK):
                return text.removeprefix(_TASK)
    return "a process of this job"


def _own_inodes() -> Iterator[int]:
    """The sockets of this process: the gateway's connections are no job's."""
    for link in links_of(os.getpid()):
        if link.startswith("socket:["):
            yield int(link[len("socket:[") : -1])


def _lives(meeting: Meeting, supervisors: Mapping[int, AttemptKey]) -> bool:
    running = set(supervisors.values())
    return meeting.first in running and meeting.second in running
