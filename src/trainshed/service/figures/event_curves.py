"""Reads the curves of a job's event files bit by bit; each call reads only what is new.

A trainer may have written a million records, which take a quarter of a minute to parse.  A call
that read all of them would hold up every other caller, so each call ends at its time limit and the
next one continues.  What a trainer writes is not trusted: every number is checked, and every list
has a limit.
"""

import errno
import math
import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, NamedTuple

from trainshed.engines.supervise.record.reports import Reported, printable, why
from trainshed.engines.supervise.watch.event_files import EventFile
from trainshed.engines.supervise.watch.event_folders import (
    ENTRIES_MAX,
    FILES_MAX,
    FOLDERS_MAX,
    list_event_files,
)
from trainshed.files.beneath import PathBeneath
from trainshed.service.figures.answers import AttemptSpan, ScalarCurve, ScalarSource
from trainshed.service.figures.growing_curve import CurvePoint, GrowingCurve
from trainshed.service.figures.merge_curves import NamedCurve, merge_curves

#: The most curves of a job in memory, and the most points of all of them.
CURVES_MAX: Final = 1000
KEPT_POINTS_MAX: Final = 200_000
#: The most points of one curve.
POINTS_MAX: Final = 2000
#: The shortest time between two searches for new files, and the share of time that they may take.
_SEARCH_S_MIN: Final = 2.0
_SEARCH_SHARE: Final = 0.05
#: A node's clock may be behind the server's by this.
_SKEW_S_MAX: Final = 5.0
_TIME_MAX: Final = 1e11
_TEXT_MAX: Final = 120
_SENTENCES_MAX: Final = 5
_TOO_MUCH: Final = (
    f"not all event files are read: the limits are {FOLDERS_MAX} folders, {FILES_MAX} event files "
    f"and {ENTRIES_MAX} entries"
)
#: TensorBoard's writers put the time of a file's creation into its name.
_CREATED: Final = re.compile(r"tfevents\.(\d{1,11})\.")


@dataclass(slots=True)
class _FileCurves:
    """One event file with the curves that were read from it."""

    file: EventFile
    place: PathBeneath
    run: str
    attempt: int
    created_s: float
    curves: dict[str, GrowingCurve] = field(default_factory=dict)
    unreal: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By name: the number of values that are not finite, and the step of the first."""


class LogFolder(NamedTuple):
    """A folder below which a job may have written event files."""

    place: PathBeneath
    attempt: int | None = None
    """The attempt that alone writes there; None: each file's time decides."""


class EventCurves:
    """The curves of all event files below the log folders of one job.  Not thread-safe."""

    def __init__(self) -> None:
        self._files: dict[str, _FileCurves] = {}
        self._old_files: set[str] = set()
        self._curve_count = 0
        self._lacks_curves = False
        self._problems: dict[str, str] = {}
        self._search_at_s = -math.inf

    def read(
        self, folders: Sequence[LogFolder], attempts: Sequence[AttemptSpan], until_s: float
    ) -> bool:
        """Read what is new below ``folders`` until ``until_s``, a time of ``time.monotonic``.

        False: there is more to read.  Never raises OSError.
        """
        if time.monotonic() >= self._search_at_s:
            self._search(folders, attempts)
        return all(self._read_file(file, until_s) for file in [*self._files.values()])

    def curves(self, names: Collection[str], points_max: int) -> Iterator[ScalarCurve]:
        """Yield the curves by name, run and attempt; empty ``names`` means all."""
        named = (
            NamedCurve(tag, file.run, file.attempt, curve)
            for file in sorted(self._files.values(), key=lambda file: file.created_s)
            for tag, curve in file.curves.items()
            if not names or tag in names
        )
        return merge_curves(named, ScalarSource.EVENT_FILES, points_max)

    def left_out(self) -> Iterator[str]:
        """Yield a sentence for each kind of value that is in no curve."""
        yield from self._problems.values()
        yield from _first(self._troubles(), "files")
        yield from _first(self._unreal_values(), "names")
        if damaged := sum(file.file.damaged for file in self._files.values()):
            yield f"{damaged} damaged records of event files were skipped"
        if self._old_files:
            yield (
                f"{len(self._old_files)} event files are older than the job's first attempt, so "
                "another job wrote them; give each job a folder of its own"
            )
        if self._lacks_curves:
            yield f"the event files have over {CURVES_MAX} curves; only the first are read"

    def describe_rest(self) -> str:
        """Say how much was read, for an answer that is not complete."""
        done = sum(file.file.read_bytes for file in self._files.values())
        total = sum(map(_size, self._files))
        return (
            f"event files are being read, {done / 1e6:.1f} of {total / 1e6:.1f} MB so far; the "
            "next call returns more"
        )

    def _search(self, folders: Sequence[LogFolder], attempts: Sequence[AttemptSpan]) -> None:
        """Add new event files."""
        began_s = time.monotonic()
        self._problems.clear()
        self._old_files.clear()
        for folder in folders:
            self._search_folder(folder, attempts)
        now_s = time.monotonic()
        self._search_at_s = now_s + max(_SEARCH_S_MIN, (now_s - began_s) / _SEARCH_SHARE)

    def _search_folder(self, folder: LogFolder, attempts: Sequence[AttemptSpan]) -> None:
        path = folder.place.path
        try:
            for place in list_event_files(folder.place):
                if len(self._files) >= FILES_MAX:
                    self._problems[path] = _TOO_MUCH
                    break
                if place.path not in self._files:
                    self._add_file(folder, place, attempts)
        except OSError as error:
            if error.errno == errno.E2BIG:
                self._problems[path] = _TOO_MUCH
            elif error.errno != errno.ENOENT:
                self._problems[path] = f"cannot read the log folder: {why(error)}"

    def _add_file(
        self, folder: LogFolder, place: PathBeneath, attempts: Sequence[AttemptSpan]
    ) -> None:
        created_s = _created_s(place.path)
        attempt = folder.attempt or find_attempt(attempts, created_s)
        if attempt is None:
            self._old_files.add(place.path)
            return
        run = printable(str(PurePath(place.path).parent.relative_to(folder.place.path)), _TEXT_MAX)
        self._files[place.path] = _FileCurves(EventFile(place), place, run, attempt, created_s)

    def _read_file(self, file: _FileCurves, until_s: float) -> bool:
        """Read one file; return False at the time limit."""
        if file.file.is_cut_off():
            self._curve_count -= len(file.curves)
            file.file, file.curves, file.unreal = EventFile(file.place), {}, {}
        if not file.file.has_changed():
            return True
        for reports in file.file.read():
            for report in reports:
                self._add_report(file, report)
            if time.monotonic() >= until_s:
                return False
        return True

    def _add_report(self, file: _FileCurves, report: Reported) -> None:
        if not math.isfinite(report.value):
            count, first_step = file.unreal.get(report.tag, (0, report.step))
            if count or len(file.unreal) < CURVES_MAX:
                file.unreal[report.tag] = count + 1, first_step
            return
        curve = file.curves.get(report.tag)
        if curve is None:
            if self._curve_count >= CURVES_MAX:
                self._lacks_curves = True
                return
            self._curve_count += 1
            curve = file.curves[report.tag] = GrowingCurve()
        at_s = report.at_s if report.at_s and 0 < report.at_s < _TIME_MAX else file.created_s
        points_max = min(POINTS_MAX, KEPT_POINTS_MAX // self._curve_count)
        curve.add(CurvePoint.of_value(report.step, at_s, report.value), points_max)

    def _troubles(self) -> Iterator[str]:
        for file in self._files.values():
            if file.file.trouble:
                name = printable(PurePath(file.place.path).name, _TEXT_MAX)
                yield f"cannot read {file.run}/{name}: {file.file.trouble}"

    def _unreal_values(self) -> Iterator[str]:
        for file in self._files.values():
            for tag, (count, step) in file.unreal.items():
                yield (
                    f"{printable(tag, _TEXT_MAX)} of {file.run} has {count} values that are NaN or "
                    f"infinite, the first at step {step} of attempt {file.attempt}"
                )


def find_attempt(attempts: Sequence[AttemptSpan], at_s: float) -> int | None:
    """Return the attempt that ran at a time; None for a time before the first attempt."""
    numbers = (span.attempt for span in reversed(attempts) if span.start - _SKEW_S_MAX <= at_s)
    return next(numbers, None)


def _created_s(path: str) -> float:
    """Return when a file was made: by its name, else by its last change."""
    if match := _CREATED.search(PurePath(path).name):
        return float(match[1])
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _first(sentences: Iterator[str], noun: str) -> Iterator[str]:
    """Yield the first sentences, and the number of the others."""
    for count, sentence in enumerate(sentences):
        if count == _SENTENCES_MAX:
            yield f"and {1 + sum(1 for _ in sentences)} more {noun}"
            return
        yield sentence


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
