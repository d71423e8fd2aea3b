"""Makes the folders that a job writes to, and writes and removes a small file in each.

Without this check a trainer could fail after an hour because its folder is not writable.
"""

import errno
import os
from collections.abc import Iterable
from typing import Final

from trainshed.files.beneath import Beneath, PathBeneath
from trainshed.model.faults import EngineFault, TransientFault, is_transient

_PROBE_BYTES: Final = 4096

#: Explanations of errno values.
REASON = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is a file",
    errno.ELOOP: "a part of the path is a link",
    errno.EEXIST: "it is a file or a broken link",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EFBIG: "the file is too large for its file system or its limit",
}


def make_all(places: Iterable[PathBeneath], mode: int | None = None) -> None:
    """Create folders and check that they can be written to.

    ``mode`` is the mode of folders below the roots, to which jobs of other users write; None uses
    the umask.  Raises EngineFault, or its subclass TransientFault if the machine is at fault.
    """
    for place in places:
        make(place, mode)


def make(place: PathBeneath, mode: int | None = None) -> None:
    """Create one folder with its parents, and check it; parameters and errors as ``make_all``."""
    try:
        os.makedirs(place.root, exist_ok=True)  # noqa: PTH103 - it may be a string
        with Beneath(place.root) as root:
            root.make_folders(place.name, mode)
            with root.folder(place.name) as folder:
                _try_writing(folder)
    except OSError as error:
        kind = TransientFault if is_transient(error) else EngineFault
        raise kind(f"cannot write to {place.path}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Return why a file operation failed, as a short text."""
    return REASON.get(error.errno or 0) or error.strerror or str(error)


def _try_writing(folder: int) -> None:
    """Write a small file to a folder and remove it.  Raises OSError."""
    name = f".trainshed-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    probe = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        os.unlink(name, dir_fd=folder)
        remaining = bytes(_PROBE_BYTES)
        while remaining:  # a nearly full disk may write only a part
            remaining = remaining[os.write(probe, remaining) :]
    finally:
        os.close(probe)
