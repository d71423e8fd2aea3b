"""What the live view of a job looks like, and how it is drawn over itself."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import TracebackType
from typing import Final, Self, TextIO

from trainshed.cli.jobs.log_lines import LineShape, cut, in_one_line, role_colour
from trainshed.cli.jobs.resource_texts import time_of, why_it_waits
from trainshed.cli.terminal import DIM, own, painted, state_text, table, write
from trainshed.client.faults import Json

#: Of the lines of the screen, what the log has at least.
_LOG_MIN: Final = 3

_HIDE, _SHOW = own("\x1b[?25l"), own("\x1b[?25h")
_NO_WRAP, _WRAP = own("\x1b[?7l"), own("\x1b[?7h")
_UP, _CLEAR_BELOW, _CLEAR_LINE = own("\x1b[{}F"), own("\x1b[J"), own("\x1b[K")


class Screen:
    """The lower part of a terminal, drawn again in its place; what is above it stays."""

    def __init__(self, stream: TextIO) -> None:
        """Draw on a terminal's stream."""
        self._stream = stream
        self._drawn: list[str] = []

    def __enter__(self) -> Self:
        """Hide the cursor; long lines are cut, so that the count of lines is ours."""
        write(_HIDE + _NO_WRAP, self._stream)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was, with the last view on it."""
        write(_WRAP + _SHOW, self._stream)

    def draw(self, lines: Sequence[str]) -> None:
        """Show the lines in the place of those that were shown before."""
        if lines == self._drawn:
            return
        back = _UP.format(len(self._drawn)) if self._drawn else ""
        body = "".join(f"{line}{_CLEAR_LINE}\n" for line in lines)
        write(f"{back}{body}{_CLEAR_BELOW}", self._stream)
        self._drawn = list(lines)


class JobView:
    """A job as lines of text that fit on a screen."""

    def __init__(self, *, colour: bool) -> None:
        """Begin with nothing to say."""
        self._colour = colour
        self._shape = LineShape(colour=colour)
        self._remark = ""

    def say(self, text: str) -> None:
        """Show a remark until the next drawing has shown it once."""
        self._remark = text

    def lines(
        self, job: Json, log: Iterable[Json], size: os.terminal_size, now: datetime | None = None
    ) -> list[str]:
        """The whole view."""
        lines = [self._head(job, now or datetime.now(tz=UTC), size.columns)]
        notes = list(why_it_waits(job.get("waiting", {})))
        notes += [line for line in (job.get("error"), self._remark) if line]
        lines += [cut(in_one_line(text), size.columns) for text in notes]
        self._remark = ""
        room = size.lines - 1 - len(lines) - 1
        if job["replicas"]:
            rows = self._replicas(job["replicas"], max(room - _LOG_MIN, 1), size.columns)
            lines += ["", *rows, ""]
        log_lines = list(log)[-max(size.lines - 1 - len(lines), 1) :]
        return lines + [self._shape.text(line, size.columns) for line in log_lines]

    def _head(self, job: Json, now: datetime, width: int) -> str:
        state = job["state"]
        attempt = f", attempt {job['attempt']}" if job["attempt"] > 1 else ""
        suffix = f"{attempt} {_format_age(job, now)}"
        name = cut(in_one_line(job["displayName"]), max(width - len(f": {state}{suffix}"), 1))
        state_label = state_text(state, on=self._colour)
        return f"{name}: {state_label}{suffix}"

    def _replicas(self, replicas: Sequence[Json], room: int, width: int) -> list[str]:
        """The table, cut to the room; the rest is counted by state."""
        head, rule, *rows = replica_table(replicas)
        visible_rows = rows if len(rows) + 2 <= room else rows[: max(room - 3, 0)]
        painted_rows = (
            painted(cut(row, width), role_colour(replica["taskName"]), on=self._colour)
            for row, replica in zip(visible_rows, replicas, strict=False)
        )
        more = Counter(replica["state"] for replica in islice(replicas, len(visible_rows), None))
        counts = ", ".join(f"{count} {state}" for state, count in more.items())
        rest = [painted(f"and {counts}", DIM, on=self._colour)] if counts else []
        return [cut(head, width), cut(rule, width), *painted_rows, *rest]


def replica_table(replicas: Iterable[Json]) -> list[str]:
    """A line a replica below a headline and a rule."""
    rows = (
        (r["role"].replace("_", " "), r["taskName"], r["node"], r["state"], _format_exit(r))
        for r in replicas
    )
    return table(("ROLE", "REPLICA", "NODE", "STATE", "EXIT"), rows).splitlines()


def _format_exit(replica: Json) -> str:
    if "signal" in replica:
        return f"signal {replica['signal']}"
    return str(replica.get("exitCode", ""))


def _format_age(job: Json, now: datetime) -> str:
    since = job.get("startTime") or job.get("createTime")
    if not since:
        return ""
    if "endTime" in job:
        return f"after {span(time_of(job['endTime']) - time_of(since))}"
    return f"for {span(now - time_of(since))}"


def span(time: timedelta) -> str:
    """A time in hours, minutes and seconds."""
    return str(timedelta(seconds=max(int(time.total_seconds()), 0)))
