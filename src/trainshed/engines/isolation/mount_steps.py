"""The steps by which a forked child changes its mount namespace, as values made before the fork."""

import ctypes
import os
from typing import Any, Final, NamedTuple, Union

# from linux/mount.h and linux/sched.h
READ_ONLY, REMOUNT, BIND, RECURSIVE, SLAVE = 1, 1 << 5, 1 << 12, 1 << 14, 1 << 19
NEW_NAMESPACE: Final = 0x00020000
_DETACH: Final = 2


class Mount(NamedTuple):
    """One call of mount(2)."""

    source: bytes | None
    target: bytes
    kind: bytes | None
    flags: int
    options: bytes | None


class Folder(NamedTuple):
    """A folder to make, with its parents."""

    path: str


class Pivot(NamedTuple):
    """Make a mounted folder the root, and detach the old root."""

    path: str


Step = Union[Mount, Folder, Pivot]


def perform(libc: Any, step: Step) -> None:
    """Perform a step.  Raises an OSError whose ``filename`` names the step."""
    if isinstance(step, Folder):
        os.makedirs(step.path, exist_ok=True)
    elif isinstance(step, Pivot):
        os.chdir(step.path)
        check(libc.pivot_root(b".", b"."), "a root of its own")
        check(libc.umount2(b".", _DETACH), "a root of its own")
        os.chdir("/")
    else:
        source, target, kind, flags, options = step
        code = libc.mount(source, target, kind, ctypes.c_ulong(flags), options)
        check(code, f"a mount on {os.fsdecode(target)}")


def check(code: int, what: str) -> None:
    """Raise an OSError that names the step ``what`` if a call of libc has failed."""
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
