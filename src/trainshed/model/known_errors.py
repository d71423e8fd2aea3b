"""Recognizes errors by their line, with a sentence on what helps."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

#: The last line of a traceback.
_EXCEPTION: Final = re.compile(r"(?:\[rank\d+\]: )?\w[\w.]*(?:Error|Exception)\b")
#: With these, launchers and other ranks report that a program has failed.
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
    """Yield lines from the last one back to the last exception, inclusive.

    An exception that only reports that another program has failed does not count.
    """
    for line in reversed(lines):
        yield line
        if _EXCEPTION.match(line) and not _FOLLOWING.match(line):
            return
