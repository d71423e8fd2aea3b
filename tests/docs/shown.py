"""Compare what a page shows of a command's output with what the command printed.

Only the fixed parts count.  Numbers, and with them times, dates and ids, are equal to each other,
as are runs of blanks and of rules, which follow the widths of columns.  A line of `...` stands for
any lines, and ` ...` at the end of a line for the rest of it.
"""

import re
from typing import Final

ELLIPSIS: Final = "..."
#: Numbers with their fractions, and what is left of dates, times and hexadecimal ids.
NUMBER: Final = re.compile(r"[-+]?\b[0-9a-f]*\d[0-9a-f]*(?:[.:,-]?\d+)*\b|\d+(?:[.,:]\d+)*")
RULE: Final = re.compile(r"[─#]+")
#: Colours, and what a terminal is told besides.
CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def find_difference(documented: str, printed: str, *, any_order: bool = False) -> str:
    """Return the first shown line that the output lacks, or an empty text."""
    expected = [_mask(line) for line in documented.splitlines() if line.strip()]
    actual = [_mask(line) for line in printed.splitlines() if line.strip()]
    if any_order:
        return next((line for line in expected if not _is_in(line, actual)), "")
    return _find_in_order(expected, actual)


def _mask(line):
    line = CONTROL.sub("", line)
    line = NUMBER.sub("0", line)
    return " ".join(RULE.sub("─", line).split())


def _matches(expected, actual):
    if expected.endswith(f" {ELLIPSIS}"):
        return actual.startswith(expected.removesuffix(ELLIPSIS).rstrip())
    return expected == actual


def _is_in(expected, actual):
    return expected == ELLIPSIS or any(_matches(expected, line) for line in actual)


def _find_in_order(expected, actual):
    """Walk both; after an ellipsis the next line may come later, otherwise it must be the next."""
    position, may_skip = 0, False
    for line in expected:
        if line == ELLIPSIS:
            may_skip = True
            continue
        while position < len(actual) and not _matches(line, actual[position]):
            if not may_skip:
                return f"{line}\n  the output has there: {actual[position]}"
            position += 1
        if position == len(actual):
            return line
        position, may_skip = position + 1, False
    if not may_skip and position < len(actual):
        return f"(the end)\n  the output goes on: {actual[position]}"
    return ""
