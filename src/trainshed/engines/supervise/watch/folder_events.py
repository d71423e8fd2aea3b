"""Reports at once when a program writes a file in some folders (inotify), also in a container.

Standard library only: the supervisor imports this.
"""

import ctypes
import os
import struct
from collections.abc import Collection

# from sys/inotify.h
_MODIFY, _CLOSE_WRITE, _MOVED_TO = 0x00000002, 0x00000008, 0x00000080
_OVERFLOW = 0x00004000
_WANTED = _MODIFY | _CLOSE_WRITE | _MOVED_TO
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 14


class FolderEvents:
    """Watches folders, without the folders below them."""

    def __init__(self, folders: Collection[str]) -> None:
        """Start to watch; without inotify, report nothing."""
        self._folders = tuple(folders)
        self._descriptor = -1
        if not self._folders:
            return
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._descriptor = self._libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        except (AttributeError, OSError):  # no inotify on this system
            return
        self.renew()

    def fileno(self) -> int:
        """Return the descriptor to wait for; -1 if no folder is watched."""
        return self._descriptor

    def renew(self) -> bool:
        """Watch also folders that were made since the last call; return whether all are watched."""
        if self._descriptor < 0:
            return False
        watched = [self._add(folder) for folder in self._folders]
        return all(watched)

    def changed(self) -> set[str] | None:
        """Return the names of files that were written since the last call; never blocks.

        None: the kernel has dropped events, so any file may have changed.  If there are many names,
        the next call returns the rest.
        """
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except OSError:  # there are no events
            return set()
        names, at = set(), 0
        while at + _EVENT.size <= len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & _OVERFLOW:
                return None
            names.add(os.fsdecode(data[at - length : at].rstrip(b"\0")))
        return names

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _add(self, folder: str) -> bool:
        watch: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _WANTED)
        return watch >= 0
