"""What is printed: tables, colours and JSON, with nothing but the standard library."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

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


def wants_colour(asked: str, stream: TextIO) -> bool:
    """Whether to colour: ``always``, ``never``, or ``auto`` on a terminal without NO_COLOR."""
    if asked != "auto":
        return asked == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str, *, on: bool) -> str:
    """The text in a colour."""
    return f"{colour}{text}{RESET}" if on and text else text


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in plain text: numbers to the right, everything else to the left."""
    body = [[_cell(value) for value in row] for row in rows]
    columns = list(zip(headers, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [bool(body) and all(map(_is_number, column[1:])) for column in columns]
    lines = [list(headers), ["─" * width for width in widths], *body]
    return "\n".join(_line(cells, widths, right) for cells in lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)


def _is_number(text: str) -> bool:
    try:
        float(text or 0)
    except ValueError:
        return False
    return True


def out(text: str) -> None:
    """Print on stdout at once, so that a pipe sees every line when it is written."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def out_json(value: Any) -> None:
    """Print a value as JSON on stdout."""
    out(json.dumps(value, indent=2, ensure_ascii=False))


def answer(args: Namespace, value: Any, text: str) -> None:
    """Print an answer in the ``--format`` that was asked for."""
    if args.format == "json":
        out_json(value)
    else:
        out(text)


def note(text: str) -> None:
    """Write one line of Trainshed's own on stderr, so that stdout stays the answer alone."""
    line = painted(f"trainshed: {harmless(text)}", DIM, on=wants_colour("auto", sys.stderr))
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def harmless(text: str) -> str:
    """A text of somebody else's without the control characters that a terminal would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
