"""Prints tables, colours and JSON, with the standard library alone.

All output of the command line goes through ``write``, which escapes control characters in texts of
other users.  Trainshed's own colours contain a secret mark, by which ``write`` recognises them.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, TextIO

from trainshed.model.visible import visible, visible_json, visible_line

#: Replaces ESC in Trainshed's own sequences; random in each process.
_ESC: Final = f"\x1b{os.urandom(16).hex()}"

RESET = "\x1b[0m"
DIM = "\x1b[2m"

#: The colour of each role, in the order of model.Role; the primary stands out.
ROLE_COLOURS = {
    "primary": "\x1b[1;32m",
    "worker": "\x1b[36m",
    "parameter_server": "\x1b[35m",
    "reducer": "\x1b[34m",
    "evaluator": "\x1b[33m",
}

#: The colours of the states of jobs and replicas.
STATE_COLOURS: Final = {
    "QUEUED": "\x1b[33m",
    "ENQUEUED": "\x1b[33m",
    "PREPARING": "\x1b[33m",
    "PLACED": "\x1b[33m",
    "RUNNING": "\x1b[1;32m",
    "RESTARTING": "\x1b[33m",
    "CANCELLING": "\x1b[33m",
    "SUCCEEDED": "\x1b[1;32m",
    "FAILED": "\x1b[1;31m",
    "CANCELLED": "\x1b[1;31m",
}
#: The heading of a column of states.
STATE: Final = "STATE"


def wants_colour(choice: str, stream: TextIO) -> bool:
    """Return whether to colour: ``auto`` colours on a terminal, unless NO_COLOR is set."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, *, on: bool) -> str:
    return f"{mark_own(colour)}{text}{mark_own(RESET)}" if on and text else text


def state_text(state: str, *, on: bool) -> str:
    """Return a state in its colour, with its padding."""
    return paint(
        state, STATE_COLOURS.get(state.strip(), ""), on=on and state.strip() in STATE_COLOURS
    )


def mark_own(sequence: str) -> str:
    """Mark an escape sequence of Trainshed, so that ``write`` does not escape it."""
    return sequence.replace("\x1b", _ESC)


def write(text: str, stream: TextIO) -> None:
    """Write a text without control characters, and flush it, so that a pipe gets each line."""
    stream.write("\x1b".join(map(visible, text.split(_ESC))))
    stream.flush()


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]], *, colour: bool = False) -> str:
    """Return a plain-text table: numbers are aligned right, texts left.

    With ``colour`` the cells of the column ``STATE`` are coloured.
    """
    body = [[_cell(value) for value in row] for row in rows]
    names = [_cell(name) for name in headers]
    columns = list(zip(names, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [bool(body) and all(map(_is_number, column[1:])) for column in columns]
    state = names.index(STATE) if colour and STATE in names else None
    lines = [names, ["─" * width for width in widths], *body]
    return "\n".join(_format_row(cells, widths, right, state) for cells in lines)


def shorten(text: str, width: int) -> str:
    """Shorten a text to at most ``width`` characters, by leaving out its middle."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def _format_row(
    cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], state: int | None
) -> str:
    padded = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    if state is not None:
        padded[state] = state_text(padded[state], on=True)
    return "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.10g}"
    return visible_line(str(value))


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "") or 0)
    except ValueError:
        return False
    return True


def write_unfiltered(text: str, stream: TextIO) -> None:
    """Write output of the user's own program; its control characters are not escaped."""
    stream.write(text.replace(_ESC, "\x1b"))
    stream.flush()


def out(text: str) -> None:
    """Print on stdout."""
    write(f"{text}\n", sys.stdout)


def err(text: str) -> None:
    """Print on stderr."""
    write(f"{text}\n", sys.stderr)


def out_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON on stdout; with ``indent=None`` in one line."""
    out(json_text(value, indent=indent))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON with escaped control characters."""
    import json

    return visible_json(json.dumps(value, indent=indent, ensure_ascii=False))


def print_result(form: str, value: Any, text: str) -> None:
    """Print a result for ``--format``: the value as JSON, or the text."""
    if form == "json":
        out_json(value)
    else:
        out(text)


def note(text: str, *, colour: str = "auto") -> None:
    """Print one note on stderr, so that stdout contains only the result."""
    err(paint(f"trainshed: {text}", DIM, on=wants_colour(colour, sys.stderr)))
