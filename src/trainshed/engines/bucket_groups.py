"""Gives a group access to a bucket, so that jobs of other users and the server use its files."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainshed.files.trees import opened_folders

#: The mode of a bucket: its group is the project's, also for new files in it.
_BUCKET_MODE: Final = 0o2770
_GROUP_READS_WRITES: Final = stat.S_IRGRP | stat.S_IWGRP
_GROUP_ENTERS: Final = stat.S_IXGRP


def share_bucket(bucket: str, gid: int) -> None:
    """Change the group of a bucket and of all its content; done once for each bucket.

    New files get the group of their folder.  The bucket's own folder is changed last, so that an
    interrupted change is repeated.
    """
    folder_stat = Path(bucket).stat()
    if folder_stat.st_gid == gid and stat.S_IMODE(folder_stat.st_mode) == _BUCKET_MODE:
        return
    for below, files, descriptor in opened_folders(bucket):
        for name in files:
            _share_file(name, descriptor, gid)
        os.fchown(descriptor, -1, gid)
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        open_mode = mode | stat.S_ISGID | _GROUP_READS_WRITES | _GROUP_ENTERS
        os.fchmod(descriptor, open_mode if below else _BUCKET_MODE)


def _share_file(name: str, folder: int, gid: int) -> None:
    """Change the group of a regular file; skip others, and files that were removed meanwhile."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError):
        descriptor = os.open(name, flags, dir_fd=folder)
        try:
            file_stat = os.fstat(descriptor)
            if stat.S_ISREG(file_stat.st_mode) and file_stat.st_nlink == 1:
                os.fchown(descriptor, -1, gid)
                os.fchmod(descriptor, stat.S_IMODE(file_stat.st_mode) | _GROUP_READS_WRITES)
        finally:
            os.close(descriptor)
