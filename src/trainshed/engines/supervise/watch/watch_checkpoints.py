"""Watches whether a restarted program opens the checkpoints that earlier attempts have written.

Without this, users notice too late that a run began again at step 0.  The kernel reports every
opening of a file (inotify), for any framework and also in a container.  Access times cannot replace
this: most machines do not record them.

Standard library only, and little of it: the supervisor imports this.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress

from trainshed.files.beneath import Beneath, PathBeneath

#: Limits of the watched folders; a larger folder holds other data than checkpoints.
FOLDERS_MAX = 256
FILES_MAX = 20_000
_ENTRIES_MAX = 100_000

# from sys/inotify.h
_OPEN, _OVERFLOW, _IS_FOLDER = 0x00000020, 0x00004000, 0x40000000
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16

#: Prefixes of other files that a training writes beside its checkpoints.
_OTHERS = ("events.out.tfevents",)
#: gcloud puts the packages of a job below its job directory, in a folder named by their SHA-256.
_DIGEST_DIGITS = 64


class CheckpointWatch:
    """Watches folders with checkpoints; the supervisor creates this before the program starts."""

    def __init__(self, folders: Sequence[str], roots: Sequence[str] = ()) -> None:
        """List the present files and watch them; without inotify there will be no warning.

        Other programs may write below the folders in ``roots``.
        """
        self._places = tuple(PathBeneath.of(folder, roots) for folder in folders)
        self._before: set[str] = set()
        self._watched: dict[int, str] = {}
        self._were_opened = False
        self._descriptor = -1
        self._watch()

    def fileno(self) -> int:
        """Return the descriptor to wait for; -1 if there is nothing to watch."""
        return self._descriptor

    def were_opened(self) -> bool:
        """Return whether a program has opened a checkpoint so far; never blocks.

        After the first opened checkpoint, the events remain unread.
        """
        while self._descriptor >= 0 and not self._were_opened:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except OSError:  # there are no more events now
                break
            # None: the kernel has dropped events, and one of them may have been a checkpoint
            self._were_opened = any(
                path is None or path in self._before for path in self._list_opened(data)
            )
        return self._were_opened

    def warning(self) -> str | None:
        """Return a warning if there were checkpoints and no program has opened one of them."""
        if self.were_opened() or self._descriptor < 0 or not self._before:
            return None
        newest = max(self._before, key=_changed_ns)
        return (
            f"This attempt has opened none of the {len(self._before)} files that earlier attempts "
            f"left in its checkpoint folders (the newest is {newest}): it may have started over. "
            "Check that the program restores its last checkpoint."
        )

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _watch(self) -> None:
        folders = list(_walk(self._places))
        if not any(files for _, files in folders):
            return
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._descriptor = self._libc.inotify_init1(_NONBLOCK | _CLOEXEC)
            for place, files in folders:
                self._add(place, files)
        except (AttributeError, OSError):  # no inotify on this system
            self._descriptor = -1

    def _add(self, place: PathBeneath, files: set[str]) -> None:
        with suppress(OSError), Beneath(place.root) as root, root.folder(place.name) as folder:
            path = f"/proc/self/fd/{folder}".encode()
            wd = self._libc.inotify_add_watch(self._descriptor, path, _OPEN)
            if wd >= 0:
                self._watched[wd] = place.path
                self._before |= files

    def _list_opened(self, data: bytes) -> Iterator[str | None]:
        """Yield the files that were opened; None if the kernel has dropped events."""
        at = 0
        while at + _EVENT.size <= len(data):
            wd, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            if mask & _OVERFLOW:
                yield None
            elif name and not mask & _IS_FOLDER and wd in self._watched:
                yield os.path.join(self._watched[wd], os.fsdecode(name))


def _walk(tops: Sequence[PathBeneath]) -> Iterator[tuple[PathBeneath, set[str]]]:
    """Yield every folder with the files in it that may be checkpoints."""
    folders_left, files_left = FOLDERS_MAX, FILES_MAX
    for top in tops:
        with suppress(OSError), Beneath(top.root) as tree:
            for name, names in tree.walk(top.name, _ENTRIES_MAX, _may_have_checkpoints):
                place = top._replace(name=name)
                files = {
                    place.below(file).path for file in names if _may_be_checkpoint(tree, name, file)
                }
                folders_left, files_left = folders_left - 1, files_left - len(files)
                if folders_left < 0 or files_left < 0:
                    return
                yield place, files


def _may_have_checkpoints(name: str) -> bool:
    return not name.startswith(".") and not (
        len(name) == _DIGEST_DIGITS and not name.strip("0123456789abcdef")
    )


def _may_be_checkpoint(tree: Beneath, folder: str, name: str) -> bool:
    if name.startswith((".", *_OTHERS)):
        return False
    try:
        file_stat = tree.stat(f"{folder}/{name}".lstrip("/"))
    except OSError:
        return False
    return stat.S_ISREG(file_stat.st_mode) and file_stat.st_size > 0


def _changed_ns(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
