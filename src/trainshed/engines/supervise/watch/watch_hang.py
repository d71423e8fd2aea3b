"""Finds replicas that show no progress: no heartbeat, no line, no CPU time.

For a program that has sent a heartbeat, only heartbeats and lines count: a collective operation
that waits for a lost peer uses CPU time.  For a program without heartbeats, CPU time counts too.
An unknown value counts as progress, so that no hang is reported by mistake.

Standard library only, and little of it: the supervisor imports this.
"""

import os
import sys
from collections.abc import Sequence

#: A waiting process uses a little CPU time too: less than this share of a core counts as none.
IDLE_SHARE = 0.01

_NS = 1_000_000_000


class _Signs:
    """The last signs of progress of one replica."""

    __slots__ = ("beat_ns", "beats", "cpu_ns", "has_ended", "is_hung", "last_s")

    def __init__(self, now_s: float) -> None:
        self.last_s = now_s
        self.cpu_ns: int | None = None
        self.beat_ns = 0
        self.beats = False
        self.is_hung = False
        self.has_ended = False


class HangWatch:
    """Stores the time of each replica's last sign of progress, in seconds of a monotonic clock."""

    def __init__(self, after_s: float, progress_files: Sequence[str], now_s: float) -> None:
        """A replica without a sign of progress for ``after_s`` seconds hangs.

        A new modification time of its file in ``progress_files`` is a heartbeat.
        """
        self._after_s = after_s
        self._files = tuple(progress_files)
        self._signs = [_Signs(now_s) for _ in self._files]
        self._checked_s = now_s
        self._recovered: list[int] = []

    def add_output(self, index: int, now_s: float) -> None:
        """Record the time at which a replica has written output."""
        self._sign(index, now_s)

    def ignore(self, index: int) -> None:
        """Ignore a replica that has ended, from now on."""
        self._signs[index].has_ended = True

    def find_hangs(self, now_s: float, cpu_ns: Sequence[int | None]) -> list[tuple[int, float]]:
        """Return replicas that hang since the last call, and the seconds since their last sign.

        ``cpu_ns`` are their CPU times so far, by index; None: unknown.
        """
        elapsed_s, self._checked_s = now_s - self._checked_s, now_s
        hangs = []
        for index, signs in enumerate(self._signs):
            if signs.has_ended:
                continue
            if self._has_beaten(index) or self._has_worked(signs, cpu_ns[index], elapsed_s):
                self._sign(index, now_s)
            idle_s = now_s - signs.last_s
            if not signs.is_hung and idle_s >= self._after_s:
                signs.is_hung = True
                hangs.append((index, idle_s))
        return hangs

    def take_recovered(self) -> list[int]:
        """Return the replicas that hung and now make progress; return each only once."""
        indexes, self._recovered = self._recovered, []
        return indexes

    def _sign(self, index: int, now_s: float) -> None:
        signs = self._signs[index]
        signs.last_s = now_s
        if signs.is_hung:
            signs.is_hung = False
            self._recovered.append(index)

    def _has_beaten(self, index: int) -> bool:
        try:
            beat_ns = os.lstat(self._files[index]).st_mtime_ns  # a program may leave a link
        except OSError:
            return False
        signs = self._signs[index]
        has_changed = beat_ns != signs.beat_ns
        signs.beat_ns = beat_ns
        signs.beats = True
        return has_changed

    @staticmethod
    def _has_worked(signs: _Signs, cpu_ns: int | None, elapsed_s: float) -> bool:
        before, signs.cpu_ns = signs.cpu_ns, cpu_ns
        if signs.beats:
            return False
        if cpu_ns is None or before is None:
            return True
        return cpu_ns - before > IDLE_SHARE * elapsed_s * _NS


def stacks_argv(pid: int) -> list[str] | None:
    """Return the command that prints the stacks of a process and its children.

    None: py-spy is not installed.
    """
    folders = [*os.environ.get("PATH", "").split(os.pathsep), os.path.dirname(sys.executable)]
    for folder in folders:
        program = os.path.join(folder, "py-spy")
        if folder and os.access(program, os.X_OK):
            return [program, "dump", "--subprocesses", "--pid", str(pid)]
    return None
