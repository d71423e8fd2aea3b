"""The folder of one attempt: where its files are, its lock, and the order to stop.

The lock is an open-file-description lock: unlike ``flock`` it can be looked at without being
taken, so that looking never gets in the way of a runner that starts.  The supervisor inherits it
by its fork.  A free lock therefore proves that neither lives.
"""

import fcntl
import json
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainshed.model.log_line import LOG_FOLDER

_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600

#: struct flock of fcntl.h on 64-bit Linux: type, whence, start, length, pid (0 for these locks).
_FLOCK: Final = "hhqqi4x"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """Written once an attempt shall end; none that has not begun by then ever begins."""

    grace_s: float
    lost: bool = False
    """Whether it was given up because no runner of it could be found."""


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """Names inside ``jobs/UID/ATTEMPT``."""

    path: Path

    @property
    def plan(self) -> Path:
        """What the runner is to do."""
        return self.path / "plan.json"

    @property
    def records(self) -> Path:
        """What the runner has to tell, in the order in which it came to be."""
        return self.path / "records.jsonl"

    @property
    def lock(self) -> Path:
        """Held as long as the runner or its supervisor lives."""
        return self.path / "lock"

    @property
    def order(self) -> Path:
        """The order to stop, if there is one."""
        return self.path / "stop"

    @property
    def log(self) -> Path:
        """The segments of the replicas' lines."""
        return self.path / LOG_FOLDER

    @property
    def words(self) -> Path:
        """What the runner itself says when something is wrong with it."""
        return self.path / "runner.txt"

    @property
    def work(self) -> Path:
        """Where replicas run whose plan names no folder."""
        return self.path / "work"

    def make(self) -> None:
        """Have the folder there, for us alone.  Raises OSError."""
        self.path.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)

    def hold(self) -> int | None:
        """Take the lock until the descriptor is closed; None when somebody has it."""
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock_of(fcntl.F_WRLCK))
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def is_held(self) -> bool:
        """Whether a runner or its supervisor lives.  Raises OSError."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock_of(fcntl.F_WRLCK))
        finally:
            os.close(descriptor)
        return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)

    def stop_order(self) -> StopOrder | None:
        """The order to stop, if it was given."""
        try:
            return StopOrder(**json.loads(self.order.read_bytes()))
        except FileNotFoundError:
            return None

    def give_order(self, order: StopOrder) -> None:
        """Write the order so that it outlasts everything; it never gets milder.  Raises OSError."""
        self.make()
        before = self.stop_order()
        if before is not None and before.grace_s <= order.grace_s:
            return
        draft = self.path / f".stop-{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with draft.open("x", encoding="ascii") as file:
                json.dump({"grace_s": order.grace_s, "lost": order.lost}, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.order)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync_folder(self.path)


def sync_folder(path: Path) -> None:
    """Have the names in a folder outlast a power cut, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _lock_of(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)
