"""What lies in a folder of a group is the group's too, whatever the umask of who makes it.

Buckets are their project's by group: its programs run as a user of their own, and read what the
server puts there.  The kernel passes on the group of such a folder (setgid), but not its rights,
and neither to what is moved there.
"""

import os
import stat
from typing import Final

_READS_WRITES: Final = stat.S_IRGRP | stat.S_IWGRP
_ENTERS: Final = stat.S_IXGRP | stat.S_ISGID


def take_group(descriptor: int, folder: int) -> None:
    """Have an open file or folder be of its folder's group; nothing where that is nobody's.

    Raises OSError.
    """
    above = os.fstat(folder)
    if not above.st_mode & stat.S_ISGID:
        return
    own = os.fstat(descriptor)
    if own.st_gid != above.st_gid:
        os.fchown(descriptor, -1, above.st_gid)
    rights = _READS_WRITES | (_ENTERS if stat.S_ISDIR(own.st_mode) else 0)
    os.fchmod(descriptor, stat.S_IMODE(own.st_mode) | rights)


def take_group_at(name: str, folder: int) -> None:
    """The same for a folder that was just made; a link in its place is not followed."""
    if not os.fstat(folder).st_mode & stat.S_ISGID:
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(name, flags, dir_fd=folder)
    try:
        take_group(made, folder)
    finally:
        os.close(made)
