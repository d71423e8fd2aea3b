"""Warns two jobs that use the same port of the machine, if jobs share its network.

Two jobs with the same fixed port and rendezvous train as one job, and both succeed without an
error.  While two attempts run, a thread reads the table of sockets every few seconds; it searches
processes only for new sockets.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from trainshed.engines.local.port_meetings import (
    Meeting,
    SocketHolder,
    find_meetings,
    list_candidates,
)
from trainshed.engines.processes import tree
from trainshed.engines.processes.socket_table import (
    TcpSocket,
    find_holders,
    held_inodes,
    read_sockets,
)
from trainshed.model import trainer_contract
from trainshed.model.attempt import AttemptKey

_LOG = logging.getLogger(__name__)

PAUSE_S: Final = 5.0
_CLOSE_S_MAX: Final = 2.0
#: The number of searches for the holder of a socket: a connection may not be accepted yet.
_SEARCHES_MAX: Final = 3
#: The number of shared ports after which two jobs get no more warnings about each other.
_WARNINGS_MAX: Final = 8
_TASK: Final = f"{trainer_contract.TASK}="
_ADVICE: Final = (
    "Jobs share the network of this machine: use the ports that MASTER_PORT and TF_CONFIG name, or "
    'set [isolation] network = "job" in a mode that has it.'
)
_LAST: Final = "Other ports at which these two jobs meet are not reported."

#: The supervisors of the attempts that run, by pid.
Running = Callable[[], Mapping[int, AttemptKey]]
#: Adds a warning to the log of an attempt; returns False if the supervisor did not get it.
Warn = Callable[[AttemptKey, str], bool]


class PortWatch:
    """Checks whether processes of two attempts use the same port, and warns both attempts once."""

    def __init__(self, running: Running, warn: Warn, pause_s: float = PAUSE_S) -> None:
        """Check nothing before ``start``."""
        self._running = running
        self._warn = warn
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._search_counts: dict[int, int] = {}
        """The number of searches for the holder of a socket, by inode."""
        self._holders: dict[int, SocketHolder] = {}
        self._warned: set[Meeting] = set()

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="port-watch", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S_MAX)
            self._thread = None

    def check(self) -> None:
        """Check the ports once."""
        supervisors = self._running()
        self._warned = {meeting for meeting in self._warned if _are_running(meeting, supervisors)}
        if len(supervisors) < 2:  # noqa: PLR2004 - a meeting takes two attempts
            return
        sockets = _read_foreign_sockets()
        self._find_new_holders(sockets, supervisors)
        for meeting, holders in find_meetings(sockets, self._holders).items():
            if meeting not in self._warned:
                self._report(meeting, holders)

    def _work(self) -> None:
        while not self._stop.wait(self._pause_s):
            try:
                self.check()
            except Exception:  # noqa: BLE001 - the next check may succeed
                _LOG.warning("cannot check the ports of jobs", exc_info=True)

    def _find_new_holders(
        self, sockets: Sequence[TcpSocket], supervisors: Mapping[int, AttemptKey]
    ) -> None:
        """Find the holders of new sockets; drop the sockets that are gone."""
        candidates = set(list_candidates(sockets))
        self._search_counts = {inode: self._search_counts.get(inode, 0) for inode in candidates}
        self._holders = {
            inode: holder for inode, holder in self._holders.items() if inode in candidates
        }
        new = [
            inode
            for inode in candidates
            if inode not in self._holders and self._search_counts[inode] < _SEARCHES_MAX
        ]
        for inode in new:
            self._search_counts[inode] += 1
        holders = find_holders(new, supervisors) if new else {}
        self._holders |= {inode: SocketHolder(*holder) for inode, holder in holders.items()}

    def _report(self, meeting: Meeting, holders: tuple[SocketHolder, SocketHolder]) -> None:
        """Warn both attempts, unless they have reached the limit of warnings about each other."""
        attempts = meeting.first, meeting.second
        warnings = 1 + sum({*attempts} == {other.first, other.second} for other in self._warned)
        if warnings > _WARNINGS_MAX:
            return
        self._warned.add(meeting)
        _LOG.warning("the attempts %s and %s use the same port %d", *attempts, meeting.port)
        texts = _compose_warnings(meeting, *(_read_task_name(holder.pid) for holder in holders))
        for key, text in zip(attempts, texts, strict=True):
            more = f" {_LAST}" if warnings == _WARNINGS_MAX else ""
            if not self._warn(key, f"{text}{more}"):
                _LOG.warning(
                    "cannot warn attempt %s in its log: its supervisor does not answer", key
                )


def _compose_warnings(meeting: Meeting, first: str, second: str) -> tuple[str, str]:
    """Return the warning for each of two jobs, without the name of the other one."""
    port = meeting.port
    if meeting.both_listen:
        words = f"listens on port {port}, and so does another job: each gets connections of both."
        return f"{first} {words} {_ADVICE}", f"{second} {words} {_ADVICE}"
    return (
        f"{first} is connected to port {port}, on which another job listens. {_ADVICE}",
        f"Another job is connected to port {port}, on which {second} listens. {_ADVICE}",
    )


def _read_task_name(pid: int) -> str:
    """Return the task name of a process, from its environment."""
    with suppress(OSError):
        for text in tree.read(f"/proc/{pid}/environ").split("\0"):
            if text.startswith(_TASK):
                return text.removeprefix(_TASK)
    return "a process of this job"


def _read_foreign_sockets() -> list[TcpSocket]:
    """Return all sockets except those of this process, which are the gateway's connections."""
    own = set(held_inodes(os.getpid()))
    return [socket for socket in read_sockets(in_use=True) if socket.inode not in own]


def _are_running(meeting: Meeting, supervisors: Mapping[int, AttemptKey]) -> bool:
    running = set(supervisors.values())
    return meeting.first in running and meeting.second in running
