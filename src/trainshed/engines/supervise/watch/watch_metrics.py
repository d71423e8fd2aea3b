"""Collects the reports of a trial from metric files and event files, while it runs.

Metric files are read as soon as the program writes them, because they contain only the last
reports.  Event files are read every few seconds: TensorFlow itself writes to them every two
minutes.  If a file cannot be read, the search note of the trial says why; the attempt
continues.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.folder import AttemptFolder, write_json
from trainshed.engines.supervise.record.reports import Reported, ReportLog
from trainshed.engines.supervise.watch.event_folders import EventFolder
from trainshed.engines.supervise.watch.folder_events import FolderEvents
from trainshed.engines.supervise.watch.hypertune_file import MetricFile
from trainshed.files.beneath import Beneath, PathBeneath
from trainshed.model.attempt import MetricsPlan, Report

#: Seconds to wait after a reading, which leaves the CPU to a program that reports often.
PAUSE_S: Final = 0.01
#: Seconds between two checks of the files: in folders without inotify, and otherwise.
QUICK_S: Final = 0.05
SLOW_S: Final = 2.0
#: Limits of the seconds for which reading event files blocks the supervisor: at a time, and in
#: total at the end of the attempt.
_AT_A_TIME_S: Final = 0.1
LAST_S_MAX: Final = 60.0
#: Limit of the reports that wait in memory while the disk is full.
_WAITING_BYTES_MAX: Final = 1 << 20
_FOUND_CHARS_MAX: Final = 2000
_PRIVATE_FOLDER: Final = 0o700


class MetricWatch:
    """The metric files and event files of one trial."""

    def __init__(
        self, loop: Loop, folder: AttemptFolder, metrics: MetricsPlan, roots: Sequence[str] = ()
    ) -> None:
        """Make the folders of the metric files; create this before the program starts.

        Other programs may write below the folders in ``roots``.
        """
        self._loop = loop
        self._began_s = time.time()
        self._search_note_path = folder.search_note
        self._search_note = ""
        self._fault = ""
        self._log = ReportLog(folder.reports)
        self._choice = Choice(metrics.tags)
        self._files = tuple(MetricFile(path, roots) for path in metrics.files)
        for file in self._files:
            file.skip_content()
        parents = dict.fromkeys(map(os.path.dirname, metrics.files))
        for parent in parents:
            with suppress(OSError):  # the program may be able to make them
                _make(PathBeneath.of(parent, roots))
        self._folders = tuple(EventFolder(path, roots) for path in outermost(metrics.summaries))
        self._events = FolderEvents(tuple(parents))
        self._is_listening = False
        self._next_slow_check_s = 0.0
        self._deadline_s: float | None = None
        self._listen()
        self._check_files()

    def finish(self) -> bool:
        """Read the rest after the end of all processes.  False: call this again soon."""
        if self._deadline_s is None:
            self._deadline_s = self._loop.now() + LAST_S_MAX
            self._ignore()
            self._events.close()
            self._safely(lambda: self._read_files(self._files))
        is_read = self._safely(lambda: self._read_folders(is_last=True))
        if not self._log.write():
            self._deadline_s = self._loop.now() + LAST_S_MAX
            return False
        if not is_read and self._loop.now() < self._deadline_s:
            self._loop.after(0.0, lambda: None)
            return False
        if not is_read:
            self._fault = f"not all event files were read within {LAST_S_MAX:g} s"
        self._write_search_note()
        return self._log.write(durably=True)

    def _handle_writes(self) -> None:
        """Read the metric files that inotify reports as written."""
        names = self._events.changed()
        files = [f for f in self._files if names is None or os.path.basename(f.path) in names]
        self._safely(lambda: self._read_files(files))
        if not any(file.is_torn for file in files):
            self._ignore()
            self._loop.after(PAUSE_S, self._listen)

    def _listen(self) -> None:
        if self._deadline_s is None and not self._is_listening and self._events.fileno() >= 0:
            self._is_listening = True
            self._loop.on_readable(self._events, self._handle_writes)

    def _ignore(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._loop.forget(self._events)

    def _check_files(self) -> None:
        if self._deadline_s is not None:
            return
        changed = [file for file in self._files if file.has_changed()]
        self._safely(lambda: self._read_files(changed))
        is_quick = False
        if self._loop.now() >= self._next_slow_check_s:
            is_quick = not self._safely(self._read_folders)
            self._next_slow_check_s = self._loop.now() + (0.0 if is_quick else SLOW_S)
            self._write_search_note()
        is_quick = is_quick or not (self._events.renew() or not self._files)
        self._loop.after(QUICK_S if is_quick else SLOW_S, self._check_files)

    def _read_files(self, files: Iterable[MetricFile]) -> bool:
        if self._log.waiting_bytes < _WAITING_BYTES_MAX:
            for file in files:
                self._keep(self._choice.of_file(file.read()))
        self._log.write()
        return True

    def _read_folders(self, *, is_last: bool = False) -> bool:
        """Read new reports of event files; return whether all were read."""
        until_s = time.monotonic() + _AT_A_TIME_S
        for folder in self._folders:
            if self._log.waiting_bytes < _WAITING_BYTES_MAX:
                for source in folder.read(until_s, is_last=is_last):
                    self._keep(self._choice.of_events(source.reports, evaluates=source.evaluates))
        self._log.write()
        return time.monotonic() < until_s and self._log.waiting_bytes < _WAITING_BYTES_MAX

    def _keep(self, reports: Iterable[Reported]) -> None:
        self._log.add(
            Report(report.tag, report.value, report.step, self._elapsed_s(report.at_s))
            for report in reports
        )

    def _elapsed_s(self, at_s: float | None) -> float:
        """Return the seconds from the start to a report, between 0 and now.

        The time that a program reports may be wrong.
        """
        elapsed_s = time.time() - self._began_s
        if at_s is not None:
            elapsed_s = min(elapsed_s, at_s - self._began_s)
        return max(0.0, elapsed_s)

    def _safely(self, read: Callable[[], bool]) -> bool:
        """Call ``read`` and return its result; True if it raises an exception.

        An error in this code must not end a job.
        """
        try:
            return read()
        except Exception as error:  # noqa: BLE001 - see above
            self._fault = f"reading the reports failed: {type(error).__name__}: {error}"
            return True

    def _write_search_note(self) -> None:
        files = [f for i, f in enumerate(self._files) if i == 0 or f.has_content]
        parts = [source.description() for source in files]
        parts += [source.description() for source in self._folders]
        note = "; ".join([*parts, self._fault] if self._fault else parts)[:_FOUND_CHARS_MAX]
        if note != self._search_note:
            with suppress(OSError):  # the next check tries again
                write_json(self._search_note_path, note)
                self._search_note = note


def _make(place: PathBeneath) -> None:
    os.makedirs(place.root, _PRIVATE_FOLDER, exist_ok=True)
    with Beneath(place.root) as root:
        root.make_folders(place.name, _PRIVATE_FOLDER)


def outermost(folders: Iterable[str]) -> list[str]:
    """List the folders that are not below another one, so that each file is read once."""
    outer: list[str] = []
    for folder in sorted({os.path.normpath(path) for path in folders}):
        if not any(folder.startswith(f"{other.rstrip('/')}/") for other in outer):
            outer.append(folder)
    return outer


class Choice:
    """Selects the reports of the requested metrics, and drops duplicates from event files."""

    #: The number of reports of metric files to remember: event files repeat them minutes later.
    STEPS_MAX: Final = 1 << 12

    def __init__(self, tags: Iterable[str]) -> None:
        """Without tags, select all reports of metric files, and none of event files."""
        self._tags = frozenset(tags)
        self._by_file: dict[tuple[str, int], None] = {}
        self._evaluated: set[str] = set()

    def of_file(self, reports: Iterable[Reported]) -> list[Reported]:
        """Select the reports of a metric file; without tags, all of them."""
        selected = [report for report in reports if not self._tags or report.tag in self._tags]
        for report in selected:
            self._by_file[report.tag, report.step] = None
        while len(self._by_file) > self.STEPS_MAX:
            del self._by_file[next(iter(self._by_file))]
        return selected

    def of_events(self, reports: Iterable[Reported], *, evaluates: bool) -> list[Reported]:
        """Select the reports of an event file.

        If an evaluation reports a metric, drop the training's reports of it.
        """
        selected = [report for report in reports if report.tag in self._tags]
        if evaluates:
            self._evaluated.update(report.tag for report in selected)
        else:
            selected = [report for report in selected if report.tag not in self._evaluated]
        return [report for report in selected if (report.tag, report.step) not in self._by_file]
