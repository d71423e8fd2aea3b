"""Folders that a job writes to, made and tried before anything is started.

A trainer that fails after an hour because its job directory cannot be written to has wasted the
hour; so the folder is created, and one small file is written and removed again.
"""

import errno
from collections.abc import Iterable
from pathlib import Path

from trainshed.model.faults import EngineFault, TransientFault, is_transient

#: What an errno means to the person who reads it.
REASON = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EEXIST: "it is a file or a broken link",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EFBIG: "files may not grow that large here",
}


def make_all(folders: Iterable[Path]) -> None:
    """Create folders and make sure that they can be written to.

    Raises EngineFault, and of that TransientFault where the machine is at fault.
    """
    for folder in folders:
        make(folder)


def make(folder: Path) -> None:
    """Create one folder, with its parents, and write to it once.  Raises as ``make_all``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _try_writing(folder)
    except OSError as error:
        kind = TransientFault if is_transient(error) else EngineFault
        raise kind(f"cannot write to {folder}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """The cause of a failed file operation, for a person."""
    return REASON.get(error.errno or 0) or error.strerror or str(error)


def _try_writing(folder: Path) -> None:
    import tempfile  # noqa: PLC0415 - slow to import; many local runs write to no folder

    with tempfile.NamedTemporaryFile(dir=folder, prefix=".trainshed-") as probe:
        probe.write(b"\0" * 4096)
        probe.flush()
