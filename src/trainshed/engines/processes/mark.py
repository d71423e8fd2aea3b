"""By what a process is known to be one of an attempt, whatever forked it, wherever it has moved.

All that a program starts inherits two marks.  One is a variable of its environment, which programs
may write over: setproctitle does.  The other is a limit that is unused: that of the resident set
has no effect since Linux 2.4.30 (setrlimit(2)).  It is far above any memory, only root can raise it
again, and who lowers it on purpose is found by cgroups and parents.
"""

import resource
from contextlib import suppress
from typing import Final

from trainshed.engines.processes.tree import living, read_bytes
from trainshed.model.trainer_contract import JOB

#: FNV-1a (RFC 9923): few bytes to one number, without an import.
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3
#: Every mark is above this, in bytes, and fits a signed number with it.
_LIMIT_MIN: Final = 1 << 61
_LINE: Final = b"\nMax resident set"
_VARIABLE: Final = f"{JOB}=".encode()


def limit_of(mark: str) -> int:
    """The limit that marks the processes of UID/ATTEMPT, in bytes."""
    number = _OFFSET
    for byte in mark.encode():
        number = (number ^ byte) * _PRIME % (1 << 64)
    return _LIMIT_MIN | (number % _LIMIT_MIN)


def bear(limit: int) -> None:
    """Mark the calling process and all that descends from it; never raises.

    Where a smaller limit has been set already the variable is the only mark.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_RSS, (limit, limit))


def limit_on(pid: int) -> int | None:
    """The mark of a living process, as far as its limit is one; None where it has none."""
    with suppress(OSError, ValueError, IndexError):
        _, _, rest = read_bytes(f"/proc/{pid}/limits").partition(_LINE)
        limit = int(rest.split(None, 2)[1])
        if limit >= _LIMIT_MIN and living([pid]):  # zombies keep their limits
            return limit
    return None


def environment(pid: int) -> list[bytes]:
    """The entries that a process was started with; none if it is gone or not ours to read."""
    with suppress(OSError):
        return read_bytes(f"/proc/{pid}/environ").split(b"\0")
    return []


def variable_in(entries: list[bytes]) -> str:
    """UID/ATTEMPT as an environment says it; empty where it does not."""
    values = (entry[len(_VARIABLE) :] for entry in entries if entry.startswith(_VARIABLE))
    return next(values, b"").decode(errors="replace")


def bears(pid: int, mark: str, limit: int) -> bool:
    """Whether a process bears one of the two marks; ``limit`` is ``limit_of`` its first."""
    return variable_in(environment(pid)) == mark or limit_on(pid) == limit
