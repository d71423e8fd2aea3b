"""Lets one thread open files as another user, with only that user's rights.

The kernel has a separate user id for file access (``setfsuid``), for file servers.  It applies to
the calling thread only, and the thread loses the capabilities that override modes and owners.
The alternative, a process of the other user, would have to start for each call.
"""

import ctypes
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

#: The number of ``setgroups`` by machine; libc's function would change the groups of all threads.
_SETGROUPS: Final = {"x86_64": 116, "aarch64": 159, "riscv64": 159}
#: No user has this id: with it ``setfsuid`` changes nothing and returns the current id.
_NO_USER: Final = -1


@contextmanager
def acting_as(user: int | None) -> Iterator[None]:
    """Run the block with the file access of a user and of the group with the same id only.

    With None the access stays that of the process.  Raises PermissionError if the process may not
    change it.
    """
    if user is None:
        yield
        return
    groups = os.getgroups()
    try:
        _set_groups([user])
        _set(user, user)
        yield
    finally:
        _set(os.geteuid(), os.getegid())
        _set_groups(groups)


def _set(uid: int, gid: int) -> None:
    """Set both ids and read them back, because the calls report no failure."""
    libc = _libc()
    libc.setfsgid(gid)
    libc.setfsuid(uid)
    if (libc.setfsuid(_NO_USER), libc.setfsgid(_NO_USER)) != (uid, gid):
        raise PermissionError(f"cannot access files as user {uid}: this process must run as root")


def _set_groups(groups: list[int]) -> None:
    """Set the groups of the calling thread only.  Raises OSError."""
    machine = os.uname().machine
    if machine not in _SETGROUPS:  # the number may be that of another call
        raise PermissionError(
            f"access to files as another user is not supported on machines of type {machine}"
        )
    array = (ctypes.c_uint32 * len(groups))(*groups)
    number = ctypes.c_long(_SETGROUPS[machine])
    if _libc().syscall(number, ctypes.c_long(len(groups)), array) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
