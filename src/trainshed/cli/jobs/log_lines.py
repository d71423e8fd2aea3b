"""Lines of a job's log on a terminal: how grave, when, which replica, what."""

import sys
from typing import Final, TextIO

from trainshed.cli.jobs.resource_texts import clock_of
from trainshed.cli.terminal import (
    DIM,
    ROLE_COLOURS,
    json_text,
    painted,
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
#: The role of a task, by how its name begins (docs/sources/gcloud.md 7.5).  ``reducer`` and
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
#: The columns of severity and clock, the bar, and the blanks between all columns.
_AROUND: Final = 8 + 8 + 1 + 4
_BEFORE_TASK: Final = 8 + 1 + 8 + 1


class LinePrinter:
    """Writes lines to a stream as they come; with ``as_json`` as the server sent them."""

    def __init__(self, stream: TextIO | None = None, *, as_json: bool = False) -> None:
        """Write to ``stream``; stdout if None."""
        self._stream = stream or sys.stdout
        self._as_json = as_json
        self._shape = LineShape(colour=wants_colour("auto", self._stream))

    def show(self, line: Json) -> None:
        """Write one line at once."""
        text = json_text(line) if self._as_json else self._shape.text(line)
        write(f"{text}\n", self._stream)


class LineShape:
    """How lines look below each other; the column of tasks grows with the longest name."""

    def __init__(self, *, colour: bool) -> None:
        """Begin with room for the usual names."""
        self._colour = colour
        self._width = _TASK_WIDTH

    def text(self, line: Json, width: int | None = None) -> str:
        """One line as text, cut to the width of a terminal."""
        severity, task = str(line["severity"]), task_of(line)
        self._width = max(self._width, len(task))
        on, grave = self._colour, _SEVERITY_COLOURS.get(severity, "")
        message = str(line["message"])
        if width is None:
            # a line of a message never looks like one of the log
            message = message.replace("\n", f"\n{' ' * (self._width + _BEFORE_TASK)} │ ")
        else:
            message = cut(in_one_line(message), max(width - self._width - _AROUND, 1))
        return " ".join(
            (
                painted(severity.ljust(_SEVERITY_WIDTH), grave, on=on and bool(grave)),
                painted(clock_of(line["time"]), DIM, on=on),
                painted(task.ljust(self._width), role_colour(task), on=on),
                painted("│", DIM, on=on),
                message,
            )
        )


def task_of(line: Json) -> str:
    """Which replica a line is of; with its trial in a tuning job, as in ``3/workerpool0-0``."""
    task, trial = str(line["task"]), line.get("trial")
    return f"{trial}/{task}" if trial else task


def role_colour(task: str) -> str:
    """The colour of a task's role; the service's own words stand back."""
    name = task.rpartition("/")[2]
    role = next((role for start, role in _ROLES.items() if name.startswith(start)), None)
    return ROLE_COLOURS[role] if role else DIM


def in_one_line(text: str) -> str:
    """A text of another user as one line of a screen."""
    return " ".join(visible(text).expandtabs(4).split("\n"))


def cut(text: str, width: int) -> str:
    """A text without colours, no wider than a terminal."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
