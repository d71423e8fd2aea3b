"""Prints the lines of a job's log on a terminal: severity, time, replica and message."""

import sys
from typing import Final, TextIO

from trainshed.cli.jobs.resource_texts import clock_of
from trainshed.cli.terminal import (
    DIM,
    ROLE_COLOURS,
    json_text,
    paint,
    wants_colour,
    write,
)
from trainshed.client.faults import Json
from trainshed.model.visible import visible

_SEVERITY_COLOURS: Final = {
    "DEBUG": DIM,
    "WARNING": "\x1b[33m",
    "ERROR": "\x1b[31m",
    "CRITICAL": "\x1b[1;31m",
}
#: The role of a task, by the beginning of its name (docs/sources/gcloud.md 7.5).  ``reducer`` and
#: ``evaluator`` are our own names for tasks of ml v1.
_ROLES: Final = {
    "master": "primary",
    "worker-": "worker",
    "ps": "parameter_server",
    "reducer": "reducer",
    "evaluator": "evaluator",
    "workerpool0": "primary",
    "workerpool1": "worker",
    "workerpool2": "parameter_server",
    "workerpool3": "evaluator",
}
_SEVERITY_WIDTH: Final = 8
_TASK_WIDTH: Final = len("master-replica-0")
#: The width of the severity, the clock, the bar, and the blanks between all columns.
_OTHER_COLUMNS: Final = 8 + 8 + 1 + 4
#: The width of the columns before the task, with their blanks.
_BEFORE_TASK: Final = 8 + 1 + 8 + 1


class LinePrinter:
    """Writes log lines to a stream, formatted, or with ``as_json`` as the server sent them."""

    def __init__(self, stream: TextIO | None = None, *, as_json: bool = False) -> None:
        """Write to ``stream``; stdout if None."""
        self._stream = stream or sys.stdout
        self._as_json = as_json
        self._format = LineFormat(colour=wants_colour("auto", self._stream))

    def print_line(self, line: Json) -> None:
        """Write one line, and flush it."""
        text = json_text(line) if self._as_json else self._format.text(line)
        write(f"{text}\n", self._stream)


class LineFormat:
    """Formats lines in columns; the column of tasks is as wide as the longest name so far."""

    def __init__(self, *, colour: bool) -> None:
        """Start with a column for the usual task names."""
        self._colour = colour
        self._width = _TASK_WIDTH

    def text(self, line: Json, width: int | None = None) -> str:
        """Return one line as text, truncated to ``width`` if it is given."""
        severity, task = str(line["severity"]), task_of(line)
        self._width = max(self._width, len(task))
        on, severity_colour = self._colour, _SEVERITY_COLOURS.get(severity, "")
        message = str(line["message"])
        if width is None:
            # the indent shows that further lines of a message are not lines of the log
            message = message.replace("\n", f"\n{' ' * (self._width + _BEFORE_TASK)} │ ")
        else:
            message = truncate(in_one_line(message), max(width - self._width - _OTHER_COLUMNS, 1))
        return " ".join(
            (
                paint(
                    severity.ljust(_SEVERITY_WIDTH),
                    severity_colour,
                    on=on and bool(severity_colour),
                ),
                paint(clock_of(line["time"]), DIM, on=on),
                paint(task.ljust(self._width), role_colour(task), on=on),
                paint("│", DIM, on=on),
                message,
            )
        )


def task_of(line: Json) -> str:
    """Return the task name of a line; in a tuning job after the trial: ``3/workerpool0-0``."""
    task, trial = str(line["task"]), line.get("trial")
    return f"{trial}/{task}" if trial else task


def role_colour(task: str) -> str:
    """Return the colour of a task's role; lines of the service itself are dim."""
    name = task.rpartition("/")[2]
    role = next((role for start, role in _ROLES.items() if name.startswith(start)), None)
    return ROLE_COLOURS[role] if role else DIM


def in_one_line(text: str) -> str:
    """Return a text of another user as one printable line."""
    return " ".join(visible(text).expandtabs(4).split("\n"))


def truncate(text: str, width: int) -> str:
    """Truncate a text without colours to a width."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
