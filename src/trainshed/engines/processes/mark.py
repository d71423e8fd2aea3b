"""Marks the processes of an attempt, so that the server recognises them wherever they have moved.

All processes that a program starts inherit two marks.  One is a variable of the environment, which
programs may overwrite: setproctitle does.  The other is a resource limit without effect: Linux
ignores the limit of the resident set since 2.4.30 (setrlimit(2)).  Its value is far above any
memory, and only root can raise it.  A process that lowers it is still found by its cgroup and its
parents.
"""

import resource
from contextlib import suppress
from typing import Final

from trainshed.engines.processes.tree import living, read_bytes
from trainshed.model.trainer_contract import JOB

#: FNV-1a (RFC 9923) hashes a few bytes to one number without an import.
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3
#: Every mark is at least this, in bytes, and fits a signed number.
_LIMIT_MIN: Final = 1 << 61
_LINE: Final = b"\nMax resident set"
_VARIABLE: Final = f"{JOB}=".encode()


def limit_of(mark: str) -> int:
    """Return the limit that marks the processes of UID/ATTEMPT, in bytes."""
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
    """Return the limit of a living process that marks it; None if its limit is not a mark."""
    with suppress(OSError, ValueError, IndexError):
        _, _, rest = read_bytes(f"/proc/{pid}/limits").partition(_LINE)
        limit = int(rest.split(None, 2)[1])
        if limit >= _LIMIT_MIN and living([pid]):  # zombies keep their limits
            return limit
    return None


def read_environment(pid: int) -> list[bytes]:
    """Return the entries of a process's first environment; none if this process may not read it."""
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
