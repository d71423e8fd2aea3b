"""What is printed: tables, colours and JSON, with nothing but the standard library.

All that the command line writes goes through ``write``, which shows what strangers' text would
hide or have a terminal do.  Our own colours carry a mark that no stranger can know, and stay.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, TextIO

from trainshed.model.visible import visible, visible_json, visible_line

#: Stands for ESC in sequences of our own; a new one in every process.
_ESC: Final = f"\x1b{os.urandom(16).hex()}"

RESET = "\x1b[0m"
DIM = "\x1b[2m"

#: One colour a role, in the order of model.Role; the primary is the one that is looked for.
ROLE_COLOURS = {
    "primary": "\x1b[1;32m",
    "worker": "\x1b[36m",
    "parameter_server": "\x1b[35m",
    "reducer": "\x1b[34m",
    "evaluator": "\x1b[33m",
}

#: How the states of jobs and their replicas are painted.
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
#: The heading of columns whose cells are states.
STATE: Final = "STATE"


def wants_colour(choice: str, stream: TextIO) -> bool:
    """Whether to colour: ``always``, ``never``, or ``auto`` on a terminal without NO_COLOR."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str, *, on: bool) -> str:
    """The text in a colour."""
    return f"{own(colour)}{text}{own(RESET)}" if on and text else text


def state_text(state: str, *, on: bool) -> str:
    """A state in its colour, with the blanks around it."""
    return painted(
        state, STATE_COLOURS.get(state.strip(), ""), on=on and state.strip() in STATE_COLOURS
    )


def own(sequence: str) -> str:
    """An escape sequence of ours, as ``write`` lets it pass."""
    return sequence.replace("\x1b", _ESC)


def write(text: str, stream: TextIO) -> None:
    """Write a text at once, so that a pipe sees every line when it is written."""
    stream.write("\x1b".join(map(visible, text.split(_ESC))))
    stream.flush()


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]], *, colour: bool = False) -> str:
    """A table in plain text: numbers to the right, everything else to the left.

    With ``colour`` the cells below ``STATE`` have the colours of their states.
    """
    body = [[_cell(value) for value in row] for row in rows]
    names = [_cell(name) for name in headers]
    columns = list(zip(names, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [bool(body) and all(map(_is_number, column[1:])) for column in columns]
    state = names.index(STATE) if colour and STATE in names else None
    lines = [names, ["─" * width for width in widths], *body]
    return "\n".join(_line(cells, widths, right, state) for cells in lines)


def shortened(text: str, width: int) -> str:
    """A text of at most so many characters; the middle of a longer one is left out."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def _line(
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
        float(text or 0)
    except ValueError:
        return False
    return True


def write_as_it_is(text: str, stream: TextIO) -> None:
    """Write what the user's own program wrote: its colours and its bars are for this terminal."""
    stream.write(text.replace(_ESC, "\x1b"))
    stream.flush()


def out(text: str) -> None:
    """Print on stdout."""
    write(f"{text}\n", sys.stdout)


def err(text: str) -> None:
    """Print on stderr."""
    write(f"{text}\n", sys.stderr)


def out_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON on stdout; without an indent in one line."""
    out(json_text(value, indent=indent))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON that a terminal may show, and that means what it meant."""
    import json

    return visible_json(json.dumps(value, indent=indent, ensure_ascii=False))


def answer(form: str, value: Any, text: str) -> None:
    """Print an answer in the form of a ``--format``: the value as JSON, else the text."""
    if form == "json":
        out_json(value)
    else:
        out(text)


def note(text: str, *, colour: str = "auto") -> None:
    """Write one line of Trainshed's own on stderr, so that stdout stays the answer alone."""
    err(painted(f"trainshed: {text}", DIM, on=wants_colour(colour, sys.stderr)))
