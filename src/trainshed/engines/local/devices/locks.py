"""Locks a device for one job against every other job on the machine, of any server or user.

The lock of a device is on a file named after its UUID, in one directory that all users share.  The
lock belongs to the open file (fcntl(2), open file description locks), so a descriptor that is sent
to another process keeps it.  The kernel releases the lock when the last process with the descriptor
ends in any way, so it needs no cleanup.  A process can read the state of a lock without locking.
The text of the file names the holder for people; it is no proof.

All users can write to the directory, and it is sticky, like /tmp.  So any user can also hold a
device without using it: the lock is for cooperating programs.  Containers with their own file
systems do not share the directory.  For them, only NVML's list of running processes
(``GpuDevice.busy_pids``) shows that a device is in use.
"""

import fcntl
import json
import os
import re
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault

_SYSTEM = Path("/run/lock")
_NAME = "trainshed-gpus"
_OVERRIDE = "TRAINSHED_LOCK_DIR"
_SHARED_DIRECTORY = 0o1777
_SHARED_FILE = 0o666

#: The lock needs write access.  With O_NONBLOCK, opening a FIFO of that name returns at once.
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

#: struct flock of fcntl.h on 64-bit Linux: type, whence, start, length, pid (0 for these locks).
_FLOCK: Final = "hhqqi4x"
_WHOLE_FILE: Final = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_TEXT_BYTES_MAX: Final = 4096


class DeviceHolder(NamedTuple):
    """The holder of a device, as its lock file names it."""

    pid: int
    what: str
    """``attempt 7/1``, for people."""
    root: str = ""
    """The folder of the server's attempts; empty for a run without a server."""

    def __str__(self) -> str:
        """Return text such as ``process 12 (attempt 7/1)``."""
        return f"process {self.pid} ({self.what})" if self.pid else "another job"

    @property
    def attempt(self) -> AttemptKey | None:
        """The attempt that ``what`` names; None if it names none."""
        match = _ATTEMPT.fullmatch(self.what)
        return None if match is None else AttemptKey(int(match[1]), int(match[2]))


_ATTEMPT: Final = re.compile(r"attempt ([0-9]{1,20})/([0-9]{1,6})", re.ASCII)

#: The holder of a lock whose file names none.
UNKNOWN: Final = DeviceHolder(pid=0, what="")


def shared_directory(env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the device locks of all users; $TRAINSHED_LOCK_DIR overrides it.

    The directory is below /run/lock.  If this user may not write to /run/lock and no other user has
    made the directory yet, it is below the temporary directory.
    """
    if override := env.get(_OVERRIDE):
        return Path(override)
    directory = _SYSTEM / _NAME
    if os.access(_SYSTEM, os.W_OK | os.X_OK) or directory.is_dir():
        return directory
    import tempfile  # noqa: PLC0415 - it is slow to import, and rarely needed

    return Path(tempfile.gettempdir()) / _NAME


def prepare(directory: Path) -> None:
    """Make the directory, sticky and writable for all users.

    Raises EngineFault when that fails, or the path is a link or not a directory.
    """
    try:
        directory.mkdir(mode=_SHARED_DIRECTORY, parents=True, exist_ok=True)
        facts = directory.lstat()
        if not stat.S_ISDIR(facts.st_mode):
            raise EngineFault(f"cannot lock a GPU: {directory} must not be a link; remove it")
        if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) != _SHARED_DIRECTORY:
            directory.chmod(_SHARED_DIRECTORY)  # mkdir has applied the umask
    except FileExistsError as error:
        raise EngineFault(f"cannot lock a GPU: {directory} is not a directory") from error
    except OSError as error:
        raise EngineFault(f"cannot lock a GPU: {directory}: {error.strerror}") from error


def try_lock(directory: Path, uuid: str, holder: DeviceHolder) -> FileIO | None:
    """Lock a device until all copies of the file are closed; None if another process holds it.

    Raises EngineFault when the lock file cannot be opened, or is not a regular file.
    """
    path = _path(directory, uuid)
    try:
        file = FileIO(_open_file(path))
    except OSError as error:
        raise EngineFault(f"cannot lock a GPU: {path}: {error.strerror}") from error
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _WHOLE_FILE)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        file.close()
        raise EngineFault(f"cannot lock a GPU: {path}: {error.strerror}") from error
    _write_holder(file.fileno(), holder)
    return file


def holder_of(directory: Path, uuid: str) -> DeviceHolder | None:
    """Return the holder of a device's lock, read without taking the lock; None for a free device.

    Raises EngineFault when the lock file cannot be opened.
    """
    path = _path(directory, uuid)
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EngineFault(f"cannot read the lock of a GPU: {path}: {error.strerror}") from error
    try:
        lock = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE)
        if struct.unpack(_FLOCK, lock)[0] == fcntl.F_UNLCK:
            return None
        return _read_holder(os.pread(descriptor, _TEXT_BYTES_MAX, 0))
    except OSError as error:
        raise EngineFault(f"cannot read the lock of a GPU: {path}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def locked_since_s(directory: Path, uuid: str) -> float | None:
    """Return when a device was locked last, in seconds since 1970; None: it never was."""
    try:
        return _path(directory, uuid).lstat().st_mtime  # the holder's name was written then
    except OSError:
        return None


def _path(directory: Path, uuid: str) -> Path:
    return directory / f"{uuid.replace('/', '_')}.lock"  # old drivers put slashes in MIG UUIDs


def _write_holder(descriptor: int, holder: DeviceHolder) -> None:
    with suppress(OSError):  # on a full disk the lock works without the text
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder._asdict()).encode(), 0)


def _read_holder(text: bytes) -> DeviceHolder:
    """Read a lock file, which any process may have written."""
    try:
        document = json.loads(text)
        pid, what, root = int(document["pid"]), str(document["what"]), str(document["root"])
    except (ValueError, TypeError, KeyError):
        return UNKNOWN
    return DeviceHolder(pid, "".join(filter(str.isprintable, what)), root)


def _open_file(path: Path) -> int:
    """Open the lock file; create it if there is none.

    The first try is without O_CREAT: in sticky directories Linux refuses O_CREAT for existing files
    of other users (fs.protected_regular), also if they can be opened without it.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        descriptor = _create_file(path)
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        os.close(descriptor)
        raise EngineFault(f"cannot lock a GPU: {path} must be a regular file; remove it")
    if facts.st_nlink != 1:  # the mode is changed below, also that of a hard link's other name
        os.close(descriptor)
        raise EngineFault(
            f"cannot lock a GPU: {path} must have one name, got {facts.st_nlink}; remove it"
        )
    if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) != _SHARED_FILE:
        os.fchmod(descriptor, _SHARED_FILE)  # the umask must not lock other users out
    return descriptor


def _create_file(path: Path) -> int:
    try:
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, _SHARED_FILE)
    except FileExistsError:  # another process was quicker
        return os.open(path, _FLAGS)
