"""What a program has died of and what helps, where its last lines say so for sure."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from trainshed.model.gpu_errors import GPU_ERRORS
from trainshed.model.known_errors import KnownError
from trainshed.model.removed import REMOVED

#: How many of the last lines are looked at for errors of a program's age.  Errors of GPUs have
#: words that stand for nothing else, and launchers (torchrun) write a page after them.
_AGE_LINES: Final = 8


def advice(lines: Iterable[str]) -> str:
    """One sentence on what a program died of: its age, or its GPU; empty for any other death.

    ``lines`` are the last that it wrote on stderr; some errors take several, and end with an
    address.
    """
    said = list(lines)
    return _first(GPU_ERRORS, said) or _first(REMOVED, said[-_AGE_LINES:])


def _first(errors: Sequence[KnownError], lines: Sequence[str]) -> str:
    for line in reversed(lines):
        for each in errors:
            if match := re.search(each.error, line):
                return each.advice.format(next(filter(None, match.groups()), ""))
    return ""
