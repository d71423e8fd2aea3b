"""Errors that are known by the line that names them, and a sentence on what helps."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

#: The last line of a traceback.
_EXCEPTION: Final = re.compile(r"(?:\[rank\d+\]: )?\w[\w.]*(?:Error|Exception)\b")
#: By these launchers and other ranks tell that a program has failed.
_FOLLOWING: Final = re.compile(
    r".*\b(?:ChildFailedError|CalledProcessError|Dist\w*Error|NCCL|"
    r"Connection (?:closed|reset) by)\b"
)


class KnownError(NamedTuple):
    error: str
    """A pattern of the line that names it."""
    advice: str
    """The sentence, with the pattern's first group that matched as ``{0}``."""


def lines_of_last_error(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines from the last one back to the last exception, which is included.

    An exception that only says that another program has failed does not end them.
    """
    for line in reversed(lines):
        yield line
        if _EXCEPTION.match(line) and not _FOLLOWING.match(line):
            return
