"""Finds why a program failed and what helps, if its last lines prove it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from trainshed.model.known_errors import GPU_ERRORS, PORT_ERRORS, REMOVED, KnownError

#: How many of the last lines are searched for errors of outdated code.  Launchers (torchrun) write
#: many lines after an error of a GPU.
_OUTDATED_LINES: Final = 8
#: The last line of a traceback.
_EXCEPTION: Final = re.compile(r"(?:\[rank\d+\]: )?\w[\w.]*(?:Error|Exception)\b")
#: The errors with which launchers and other ranks report that a program has failed.
_FOLLOWING: Final = re.compile(
    r".*\b(?:ChildFailedError|CalledProcessError|Dist\w*Error|NCCL|"
    r"Connection (?:closed|reset) by)\b"
)


def advice(lines: Iterable[str]) -> str:
    """Return a sentence on why a program failed: outdated code, a GPU, or a port in use.

    Empty for any other failure.  ``lines`` are the program's last lines on stderr; some errors have
    several lines and end with an address.
    """
    last_lines = list(lines)
    sentence = _advise_on_outdated_code(last_lines[-_OUTDATED_LINES:])
    return sentence or _advise_on_last_error(last_lines)


def _advise_on_outdated_code(lines: Sequence[str]) -> str:
    return next(filter(None, (_find_advice(REMOVED, line) for line in reversed(lines))), "")


def _advise_on_last_error(lines: Sequence[str]) -> str:
    """Advise on the last error of a GPU or a port, unless another exception came after it.

    Programs that search for a batch size continue after the memory was full, and may fail later for
    another reason.
    """
    sentences = (
        _find_advice((*GPU_ERRORS, *PORT_ERRORS), line) for line in lines_of_last_error(lines)
    )
    return next(filter(None, sentences), "")


def _find_advice(errors: Sequence[KnownError], line: str) -> str:
    for error in errors:
        if match := re.search(error.error, line):
            return error.advice.format(next(filter(None, match.groups()), ""))
    return ""


def lines_of_last_error(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines from the last one back to the last exception, inclusive.

    An exception that only reports that another program has failed does not count.
    """
    for line in reversed(lines):
        yield line
        if _EXCEPTION.match(line) and not _FOLLOWING.match(line):
            return
