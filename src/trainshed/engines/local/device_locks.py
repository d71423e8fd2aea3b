"""Holds a device for one job against every other job on the machine, whoever started it (R10).

A device is held by a lock (flock) on a file named after its UUID, in one directory that all users
share.  The kernel releases the lock when the launcher and its supervisor are gone, however they
went, so there is nothing to clean up and nothing to guess.

The directory is open to all and sticky, as /tmp is.  Whoever can make a file there can also hold a
device without using it: the lock keeps those apart who mean well.  In containers that have file
systems of their own there is no common directory, and what NVML says of running processes
(``Device.busy_pids``) is all there is.
"""

import fcntl
import os
import stat
from collections.abc import Mapping
from io import FileIO
from pathlib import Path

from trainshed.model.faults import EngineFault

_SYSTEM = Path("/run/lock")
_NAME = "trainshed-gpus"
_OVERRIDE = "TRAINSHED_LOCK_DIR"
_SHARED_DIRECTORY = 0o1777
_SHARED_FILE = 0o666

#: flock needs no right to write.  O_NONBLOCK: opening a FIFO that somebody has put here returns.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def shared_directory(env: Mapping[str, str] = os.environ) -> Path:
    """Where all users of the machine keep their device locks; $TRAINSHED_LOCK_DIR overrides.

    It is below /run/lock, or below the temporary directory where we may not write there and nobody
    who may has made ours yet.
    """
    if given := env.get(_OVERRIDE):
        return Path(given)
    ours = _SYSTEM / _NAME
    if os.access(_SYSTEM, os.W_OK | os.X_OK) or ours.is_dir():
        return ours
    import tempfile  # noqa: PLC0415 - it is slow to import, and rarely needed

    return Path(tempfile.gettempdir()) / _NAME


def prepare(directory: Path) -> None:
    """Have the directory there, open to all users and sticky.

    Raises EngineFault when it cannot be made, or is a link or no directory.
    """
    try:
        directory.mkdir(mode=_SHARED_DIRECTORY, parents=True, exist_ok=True)
        facts = directory.lstat()
        if not stat.S_ISDIR(facts.st_mode):
            raise EngineFault(f"cannot lock a GPU: {directory} is a link, not a directory")
        if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) != _SHARED_DIRECTORY:
            directory.chmod(_SHARED_DIRECTORY)  # mkdir has taken the umask off
    except FileExistsError as error:
        raise EngineFault(f"cannot lock a GPU: {directory} is not a directory") from error
    except OSError as error:
        raise EngineFault(f"cannot lock a GPU: {directory}: {error.strerror}") from error


def try_lock(directory: Path, uuid: str) -> FileIO | None:
    """Lock a device until the file is closed; None when another holds it.

    Raises EngineFault when the lock file cannot be opened, or is none.
    """
    path = directory / f"{uuid}.lock"
    try:
        file = FileIO(_opened(path))
    except OSError as error:
        raise EngineFault(f"cannot lock a GPU: {path}: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        file.close()
        raise EngineFault(f"cannot lock a GPU: {path}: {error.strerror}") from error
    return file


def _opened(path: Path) -> int:
    """A descriptor of the lock file, which is made if it is not there.

    O_CREAT only where there is none: in sticky directories Linux refuses it for the files of other
    users (fs.protected_regular), also when they could be opened.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        descriptor = _made(path)
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        os.close(descriptor)
        raise EngineFault(f"cannot lock a GPU: {path} is not a file")
    if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) != _SHARED_FILE:
        os.fchmod(descriptor, _SHARED_FILE)  # the umask must not lock other users out
    return descriptor


def _made(path: Path) -> int:
    try:
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, _SHARED_FILE)
    except FileExistsError:  # somebody was quicker
        return os.open(path, _FLAGS)
