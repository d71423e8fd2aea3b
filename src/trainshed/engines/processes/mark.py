"""Marks the processes of an attempt, so that the server can find them anywhere on the machine.

All processes that a program starts inherit two marks.  The first is a variable of the environment.
Programs may overwrite it, as setproctitle does.  The second is a resource limit without effect:
Linux ignores the limit of the resident set since 2.4.30 (setrlimit(2)).  The value of this limit is
far above any memory, and only root can raise it.  If a process lowers the limit, the server still
finds the process by its cgroup and its parents.
"""

import resource
from contextlib import suppress
from typing import Final

from trainshed.engines.processes.tree import living, read_bytes
from trainshed.model.trainer_contract import JOB

#: Constants of FNV-1a (RFC 9923), a hash of a few bytes that needs no import.
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3
#: The smallest limit that is a mark, in bytes.  All marks fit a signed 64-bit number.
_LIMIT_MIN: Final = 1 << 61
_LINE: Final = b"\nMax resident set"
_VARIABLE: Final = f"{JOB}=".encode()


def limit_of(mark: str) -> int:
    """Return the limit in bytes that marks the processes of an attempt; ``mark`` is UID/ATTEMPT."""
    number = _OFFSET
    for byte in mark.encode():
        number = (number ^ byte) * _PRIME % (1 << 64)
    return _LIMIT_MIN | (number % _LIMIT_MIN)


def mark_self(limit: int) -> None:
    """Mark the calling process and all its descendants by a limit; never raises.

    If the process has a smaller limit already, the variable is its only mark.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_RSS, (limit, limit))


def read_limit(pid: int) -> int | None:
    """Return the limit that marks a living process; None if its limit is not a mark."""
    with suppress(OSError, ValueError, IndexError):
        _, _, rest = read_bytes(f"/proc/{pid}/limits").partition(_LINE)
        limit = int(rest.split(None, 2)[1])
        if limit >= _LIMIT_MIN and living([pid]):  # zombies keep their limits
            return limit
    return None


def read_environment(pid: int) -> list[bytes]:
    """Return the entries of the environment with which a process started.

    Empty: the process has ended, or this process may not read its environment.
    """
    with suppress(OSError):
        return read_bytes(f"/proc/{pid}/environ").split(b"\0")
    return []


def find_variable(entries: list[bytes]) -> str:
    """Return UID/ATTEMPT from the entries of an environment; empty if they do not have it."""
    values = (entry[len(_VARIABLE) :] for entry in entries if entry.startswith(_VARIABLE))
    return next(values, b"").decode(errors="replace")


def has_mark(pid: int, mark: str, limit: int) -> bool:
    """Return whether a process has one of the two marks; ``limit`` is ``limit_of(mark)``."""
    return find_variable(read_environment(pid)) == mark or read_limit(pid) == limit
