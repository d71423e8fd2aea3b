"""What a program has died of and what helps, where its last lines say so for sure."""

import re
from collections.abc import Iterable

from trainshed.model.gpu_errors import GPU_ERRORS
from trainshed.model.removed import REMOVED


def advice(lines: Iterable[str]) -> str:
    """One sentence on what a program died of: its age, or its GPU; empty for any other death.

    ``lines`` are the last that it wrote on stderr; some errors take several, and end with an
    address.
    """
    said = list(lines)
    for line in reversed(said):
        for each in (*GPU_ERRORS, *REMOVED):
            if match := re.search(each.error, line):
                return each.advice.format(next(filter(None, match.groups()), ""))
    return ""
