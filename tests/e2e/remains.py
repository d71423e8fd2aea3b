"""Looks for what a job may have left: processes by mark and by word, cgroup boxes, a supervisor."""

import os
from contextlib import suppress
from pathlib import Path

from e2e.chaos import records, uid_of
from e2e.support import native, wait_until
from trainshed.engines.processes.identity import is_alive
from trainshed.engines.supervise.leftovers import list_marked
from trainshed.engines.supervise.record.folder import AttemptFolder

_DEAD = ("Z", "X")


class Remains:
    """What may be left of one job; ``word`` stands in the command lines of its programs."""

    def __init__(self, server, name, word):
        self._server = server
        self._name = name
        self._uid = uid_of(name)
        if not self._uid.isdecimal():
            self._uid = native(server, name)["uid"]
        self._word = word.encode()

    @property
    def attempts(self):
        """The folders of its attempts, the first one first."""
        folder = self._server.data_dir / "jobs" / self._uid
        with suppress(FileNotFoundError):
            return sorted(folder.iterdir(), key=lambda path: int(path.name))
        return []

    def processes(self, attempt=None):
        """The pids that carry the mark of an attempt, or of any; and those that lost it."""
        if attempt is not None:
            return set(list_marked(f"{self._uid}/{attempt}"))
        pids = {pid for path in self.attempts for pid in list_marked(f"{self._uid}/{path.name}")}
        return pids | set(self.with_word())

    def with_word(self):
        """The processes in whose command line the word stands."""
        return [pid for pid in _pids() if self._word in _command_line(pid) and _lives(pid)]

    def check_no_process(self):
        """Nothing that a trainer has started lives, now: the server has said that the job ended."""
        left = self.processes()
        assert not left, f"{self._name}: {[(pid, _command_line(pid)) for pid in left]}"

    def check_nothing(self):
        """The supervisor has gone as well, and has taken its boxes along."""
        self.check_no_process()
        wait_until(lambda: not self.supervisors(), lambda: f"{self._name}: {self.supervisors()}")
        assert not self.boxes(), f"{self._name}: {self.boxes()}"

    def supervisors(self):
        """The locks of its attempts that are held, and the processes that have taken one last."""
        folders = [AttemptFolder(path) for path in self.attempts]
        holders = filter(None, (folder.holder() for folder in folders))
        held = [f"{folder.path} is held" for folder in folders if folder.is_held()]
        return held + [str(holder.pid) for holder in holders if is_alive(holder)]

    def boxes(self):
        """The directories in cgroup trees that were made for its attempts and are still there."""
        began = [record for path in self.attempts for record in records(path, "Began")]
        paths = [path for record in began for path in record["places"].get("boxes", ())]
        return [path for path in paths if Path(path).exists()]


def _pids():
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - names


def _command_line(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _lives(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in _DEAD
    return False
