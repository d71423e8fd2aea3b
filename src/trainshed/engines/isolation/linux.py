"""System calls that Python has no functions for; each raises an OSError that names the action."""

import ctypes
import os
from typing import Any, Final

# from linux/prctl.h and linux/capability.h
_NO_NEW_PRIVS: Final = 38
_BOUNDING_DROP: Final = 24
_LAST_CAP: Final = "/proc/sys/kernel/cap_last_cap"
_CAPS_DEFAULT: Final = 40

LIBC: Final = ctypes.CDLL(None, use_errno=True)


def check(code: int, what: str) -> int:
    """Return the result of a call; raise an OSError with the action ``what`` if it is negative."""
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return code


def syscall(what: str, number: int, *words: Any) -> int:
    """Make a system call by its number; numbers are passed as C longs."""
    converted = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    return check(LIBC.syscall(ctypes.c_long(number), *converted), what)


def forbid_new_privileges() -> None:
    """Forbid this process and its children to gain privileges by executing a file."""
    _prctl(_NO_NEW_PRIVS, 1, "no new privileges")


def drop_capabilities(count: int) -> None:
    """Drop the first ``count`` capabilities from the bounding set: no program can regain them."""
    for number in range(count):
        _prctl(_BOUNDING_DROP, number, "capabilities")


def capability_count() -> int:
    """Return the number of capabilities of the kernel."""
    try:
        with open(_LAST_CAP, encoding="ascii") as file:
            return int(file.read()) + 1
    except (OSError, ValueError):
        return _CAPS_DEFAULT


def _prctl(option: int, value: int, what: str) -> None:
    zero = ctypes.c_ulong(0)
    check(LIBC.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero), what)
