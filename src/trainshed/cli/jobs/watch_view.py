"""Renders the live view of a job, and redraws it in place on a terminal."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import TracebackType
from typing import Final, Self, TextIO

from trainshed.cli.jobs.log_lines import LineFormat, in_one_line, role_colour, truncate
from trainshed.cli.jobs.progress_texts import progress_line
from trainshed.cli.jobs.resource_texts import time_of, wait_lines
from trainshed.cli.terminal import DIM, mark_own, paint, state_text, table, write
from trainshed.client.faults import Json

#: The least number of the screen's lines for the log.
_LOG_MIN: Final = 3

_HIDE, _SHOW = mark_own("\x1b[?25l"), mark_own("\x1b[?25h")
_NO_WRAP, _WRAP = mark_own("\x1b[?7l"), mark_own("\x1b[?7h")
_UP, _CLEAR_BELOW, _CLEAR_LINE = mark_own("\x1b[{}F"), mark_own("\x1b[J"), mark_own("\x1b[K")


class Screen:
    """The lower part of a terminal, which is redrawn in place; the lines above it stay."""

    def __init__(self, stream: TextIO) -> None:
        """Draw on the stream of a terminal."""
        self._stream = stream
        self._drawn: list[str] = []

    def __enter__(self) -> Self:
        """Hide the cursor, and let the terminal cut long lines, so that their count is known."""
        write(_HIDE + _NO_WRAP, self._stream)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the terminal's settings; the last view stays on it."""
        write(_WRAP + _SHOW, self._stream)

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the lines of the last drawing."""
        if lines == self._drawn:
            return
        back = _UP.format(len(self._drawn)) if self._drawn else ""
        body = "".join(f"{line}{_CLEAR_LINE}\n" for line in lines)
        write(f"{back}{body}{_CLEAR_BELOW}", self._stream)
        self._drawn = list(lines)


class JobView:
    """A job as lines of text that fit on a screen."""

    def __init__(self, *, colour: bool) -> None:
        """Start without a remark."""
        self._colour = colour
        self._format = LineFormat(colour=colour)
        self._remark = ""

    def set_remark(self, text: str) -> None:
        """Show a remark in the next drawing."""
        self._remark = text

    def lines(
        self, job: Json, log: Iterable[Json], size: os.terminal_size, now: datetime | None = None
    ) -> list[str]:
        """Return the lines of the view."""
        lines = [self._head(job, now or datetime.now(tz=UTC), size.columns)]
        notes = list(wait_lines(job.get("waiting", {})))
        others = (progress_line(job.get("progress")), job.get("error"), self._remark)
        notes += [line for line in others if line]
        lines += [truncate(in_one_line(text), size.columns) for text in notes]
        self._remark = ""
        room = size.lines - 1 - len(lines) - 1
        if job["replicas"]:
            rows = self._replicas(job["replicas"], max(room - _LOG_MIN, 1), size.columns)
            lines += ["", *rows, ""]
        log_lines = list(log)[-max(size.lines - 1 - len(lines), 1) :]
        return lines + [self._format.text(line, size.columns) for line in log_lines]

    def _head(self, job: Json, now: datetime, width: int) -> str:
        state = job["state"]
        attempt = f", attempt {job['attempt']}" if job["attempt"] > 1 else ""
        suffix = f"{attempt} {_format_age(job, now)}"
        name = truncate(in_one_line(job["displayName"]), max(width - len(f": {state}{suffix}"), 1))
        state_label = state_text(state, on=self._colour)
        return f"{name}: {state_label}{suffix}"

    def _replicas(self, replicas: Sequence[Json], room: int, width: int) -> list[str]:
        """Return the rows of the table that fit; the other replicas are counted by state."""
        head, rule, *rows = replica_table(replicas)
        visible_rows = rows if len(rows) + 2 <= room else rows[: max(room - 3, 0)]
        painted_rows = (
            paint(truncate(row, width), role_colour(replica["taskName"]), on=self._colour)
            for row, replica in zip(visible_rows, replicas, strict=False)
        )
        more = Counter(replica["state"] for replica in islice(replicas, len(visible_rows), None))
        counts = ", ".join(f"{count} {state}" for state, count in more.items())
        rest = [paint(f"and {counts}", DIM, on=self._colour)] if counts else []
        return [truncate(head, width), truncate(rule, width), *painted_rows, *rest]


def replica_table(replicas: Iterable[Json]) -> list[str]:
    """Return a header, a rule and a line for each replica."""
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
        return f"after {format_span(time_of(job['endTime']) - time_of(since))}"
    return f"for {format_span(now - time_of(since))}"


def format_span(time: timedelta) -> str:
    """Return a duration as hours, minutes and seconds."""
    return str(timedelta(seconds=max(int(time.total_seconds()), 0)))
