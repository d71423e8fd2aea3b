"""Lets containers write where their job may, though they run as another user than the server.

Only a server that is root has such users.  Folders change hands, files do not: a container may add,
replace and remove, as with real buckets, whose objects cannot be written in place either.
"""

import os
from collections.abc import Iterable

_ROOT = 0


def hand_over(folders: Iterable[str], user: str | None) -> None:
    """Give folders that are root's, and those below them, to ``UID:GID``; links are not followed.

    Does nothing for a server that is not root, or containers that are their images' users.  Raises
    OSError; folders that are removed meanwhile are passed over.
    """
    if user is None or os.geteuid() != _ROOT:
        return
    uid, gid = (int(part) for part in user.split(":"))
    for folder in folders:
        for _, _, _, descriptor in os.fwalk(folder, follow_symlinks=False):
            if os.fstat(descriptor).st_uid == _ROOT:
                os.fchown(descriptor, uid, gid)
