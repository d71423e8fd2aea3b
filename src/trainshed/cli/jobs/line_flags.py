"""The flags that select lines of a log."""

import argparse
from typing import Final

from trainshed.cli import flag_values, flags
from trainshed.client.following import LineSelection
from trainshed.model.faults import UsageFault

#: The largest number of a line that a server accepts.
LINE_MAX: Final = (1 << 63) - 1


def add_selection_flags(parser: flags.Parser) -> None:
    """Add the flags to a parser."""
    add = flags.adder(parser)
    add("--task-name TASK", "Only the lines of this replica")
    add("--trial N", "Only the lines of this trial of a tuning job")
    add(
        "--from-line N",
        "Begin with the line number N, from 1, as the console shows it; a tuning job needs --trial",
        type=flag_values.whole_number(1, LINE_MAX),
    )
    add("--grep TEXT", "Only lines with this text; capital and small letters are equal")
    add("--regex", "TEXT of --grep is a regular expression of RE2", action="store_true")


def selection_of(
    args: argparse.Namespace, *, trial: str | None = None, tail: int | None = None
) -> LineSelection:
    """Return the selected lines; ``trial`` has precedence over the flag.

    Raises ``UsageFault`` for an expression without a text.
    """
    if args.regex and not args.grep:
        raise UsageFault("--regex needs the expression: --grep TEXT --regex")
    return LineSelection(
        task=args.task_name,
        trial=trial or args.trial,
        tail=tail,
        from_line=args.from_line,
        text=args.grep or None,
        is_expression=args.regex,
    )
