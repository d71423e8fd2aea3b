"""Becomes another user, then another program: ``python as_user.py UID PROGRAM ...``.

The interpreter of the tests may lie in a home that only root may enter.  So that user gets a mount
namespace in which the folders on the way to it can be entered, and have nothing else in them.
"""

import ctypes
import os
import sys
from pathlib import Path

NEW_NAMESPACE, BIND, RECURSIVE, PRIVATE = 0x00020000, 1 << 12, 1 << 14, 1 << 18
LIBC = ctypes.CDLL(None, use_errno=True)
ENTER = 0o005


def main():
    uid, *argv = sys.argv[1:]
    closed = closed_folder(Path(sys.executable).resolve())
    if closed is not None:
        open_way(closed, Path(sys.executable).resolve().parents[1])
    os.setgroups([])
    os.setresgid(int(uid), int(uid), int(uid))
    os.setresuid(int(uid), int(uid), int(uid))
    os.execv(argv[0], argv)  # noqa: S606 - the purpose


def closed_folder(path):
    """The first folder on the way that others may not enter."""
    for folder in reversed(path.parents):
        if folder.stat().st_mode & ENTER != ENTER:
            return folder
    return None


def open_way(closed, shown):
    """Have nothing but ``shown`` in the closed folder."""
    checked(LIBC.unshare(NEW_NAMESPACE))
    mount(None, "/", None, PRIVATE | RECURSIVE)
    descriptor = os.open(shown, os.O_PATH)
    mount("tmpfs", closed, "tmpfs", 0, b"mode=755")
    shown.mkdir(parents=True)
    mount(f"/proc/self/fd/{descriptor}", shown, None, BIND | RECURSIVE)
    os.close(descriptor)


def mount(source, target, kind, flags, options=None):
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    checked(LIBC.mount(*words, ctypes.c_ulong(flags), options))


def checked(code):
    if code:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main()
