"""Reads the file in which a trial's program reports its metrics (docs/sources/vertex.md 10.1).

cloudml-hypertune and pytorch-ignite rewrite the whole file in place at each report, with its last
100 lines.  So a reader may see an empty or half-written file, sees old lines again, and loses lines
that it does not read in time.  Other programs, such as shell scripts, append lines.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.supervise.record.reports import Names, Reported, open_file, printable, why
from trainshed.files.beneath import PathBeneath

#: The fields of a line that are not metrics.
RESERVED: Final = frozenset({"checkpoint_path", "global_step", "timestamp", "trial"})
#: Only the end of a longer file is read.
FILE_BYTES_MAX: Final = 1 << 18
LINE_BYTES_MAX: Final = 1 << 14
#: The least number of old lines to recognise; twice the lines of the file if that is more.
_COUNTS_MIN: Final = 1 << 12
_TAG_CHARS_MAX: Final = 1 << 10
_SHOWN_CHARS_MAX: Final = 60
_STEP_MAX: Final = (1 << 63) - 1


class MetricFile:
    """One metric file; each reading returns the new reports."""

    def __init__(self, path: str, roots: Iterable[str] = ()) -> None:
        """The file need not exist; other programs may write below ``roots``."""
        self.path = path
        self._place = PathBeneath.of_file(path, roots)
        self.is_torn = False
        """Whether the file was empty or half-written at the last reading, so more will follow."""
        self._counts: dict[int, int] = {}
        self._stamp: tuple[int, ...] = ()
        self._was_written = False
        self._names = Names()
        self._invalid_lines = 0
        self._invalid_example = ""
        self._trouble = ""

    def skip_content(self) -> None:
        """Skip the present content of the file, which an earlier program wrote."""
        with suppress(OSError):
            self._select_new(self._read_content().split(b"\n"))

    def has_changed(self) -> bool:
        """Return whether the file differs from the last call, by its inode, size and time."""
        try:
            file_stat = os.lstat(self.path)
        except OSError:
            return False
        stamp = (file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns)
        has_changed, self._stamp = stamp != self._stamp, stamp
        return has_changed

    def read(self) -> list[Reported]:
        """Return the reports that are new since the last reading, in order; never raises."""
        self.is_torn = False
        try:
            data = self._read_content()
        except FileNotFoundError:
            return []
        except OSError as error:
            self._trouble = why(error)
            return []
        self._trouble = ""
        self._was_written = True
        lines = data.split(b"\n")
        self.is_torn = not data or bool(lines[-1])
        return [report for line in self._select_new(lines) for report in self._parse(line)]

    @property
    def has_content(self) -> bool:
        """Whether a program wrote the file, or the file exists and cannot be read."""
        return self._was_written or bool(self._trouble)

    def description(self) -> str:
        """Describe what the file contains, for people."""
        if self._trouble:
            return f"{self.path} could not be read: {self._trouble}"
        if not self._was_written:
            return f"{self.path} was never written"
        lines = (
            "1 line that is not a report"
            if self._invalid_lines == 1
            else f"{self._invalid_lines} lines that are not reports"
        )
        odd = f"{lines}, such as {self._invalid_example}"
        if not self._names:
            return f"{self.path} has {odd if self._invalid_lines else 'no metrics'}"
        return f"{self.path} has the {self._names.after('metric')}" + (
            f", and {odd}" if self._invalid_lines else ""
        )

    def _read_content(self) -> bytes:
        """Read with one call, because programs rewrite the file meanwhile.  Raises OSError."""
        file, size = open_file(self._place)
        with file:
            skipped = max(0, size - FILE_BYTES_MAX)
            data = os.pread(file.fileno(), size - skipped + LINE_BYTES_MAX, skipped)
        return data.partition(b"\n")[2] if skipped else data

    def _select_new(self, lines: list[bytes]) -> list[bytes]:
        """Select lines that occur more often than ever before; the last one is unfinished."""
        counts: Counter[int] = Counter()
        new = []
        for index, line in enumerate(lines):
            is_unfinished = index == len(lines) - 1
            if not line.strip() or (is_unfinished and not parsed(line)):
                continue
            key = hash(line)
            counts[key] += 1
            if counts[key] > self._counts.get(key, 0):
                self._counts[key] = counts[key]
                new.append(line)
        self._forget(2 * len(lines))
        return new

    def _forget(self, line_count: int) -> None:
        """Forget the oldest lines, which cannot occur again: lines leave the file in order."""
        while len(self._counts) > max(_COUNTS_MIN, line_count):
            del self._counts[next(iter(self._counts))]

    def _parse(self, line: bytes) -> list[Reported]:
        reports = parsed(line)
        if not reports:
            self._invalid_lines += 1
            self._invalid_example = self._invalid_example or printable(
                repr(line[: 2 * _SHOWN_CHARS_MAX])[1:], _SHOWN_CHARS_MAX
            )
        for report in reports:
            self._names.add(report.tag)
        return reports


def parsed(line: bytes) -> list[Reported]:
    """Parse the reports in one line: one per metric; empty if the line is not a report."""
    if len(line) > LINE_BYTES_MAX:
        return []
    try:
        document = json.loads(line.decode())
    except (ValueError, RecursionError):
        return []
    if not isinstance(document, dict):
        return []
    step, at_s = _step(document.get("global_step")), number(document.get("timestamp"))
    values = {tag: number(v) for tag, v in document.items() if tag not in RESERVED}
    return [
        Reported(tag, value, step, at_s)
        for tag, value in values.items()
        if value is not None and len(tag) <= _TAG_CHARS_MAX
    ]


def number(value: Any) -> float | None:
    """Return the value of a number or its text ("0.5", "nan", "-inf"); None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _step(value: Any) -> int:
    try:
        step = int(value)
    except (TypeError, ValueError, OverflowError):
        try:
            step = int(number(value) or 0)
        except (ValueError, OverflowError):  # nan, inf
            step = 0
    return max(-_STEP_MAX, min(_STEP_MAX, step))
