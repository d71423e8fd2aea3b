"""What a program has died of and what helps, where its last lines say so for sure."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from trainshed.model.gpu_errors import GPU_ERRORS
from trainshed.model.known_errors import KnownError, lines_of_last_error
from trainshed.model.port_errors import PORT_ERRORS
from trainshed.model.removed import REMOVED

#: How many of the last lines are looked at for errors of a program's age.  Launchers (torchrun)
#: write a page after an error of a GPU.
_AGE_LINES: Final = 8


def advice(lines: Iterable[str]) -> str:
    """One sentence on what a program died of: its age, its GPU, or a port that is in use.

    Empty for any other death.  ``lines`` are the last that it wrote on stderr; some errors take
    several, and end with an address.
    """
    said = list(lines)
    return _of_age(said[-_AGE_LINES:]) or _of_last_error(said)


def _of_age(lines: Sequence[str]) -> str:
    return next(filter(None, (_known(REMOVED, line) for line in reversed(lines))), "")


def _of_last_error(lines: Sequence[str]) -> str:
    """The last error of a GPU or of a port, unless another exception came after it.

    Programs that look for a batch size go on after a full memory, and may die of something else.
    """
    sentences = (_known((*GPU_ERRORS, *PORT_ERRORS), line) for line in lines_of_last_error(lines))
    return next(filter(None, sentences), "")


def _known(errors: Sequence[KnownError], line: str) -> str:
    for each in errors:
        if match := re.search(each.error, line):
            return each.advice.format(next(filter(None, match.groups()), ""))
    return ""
