"""Follows the event files of a folder while the program of a trial makes and writes them.

Files that are older than the attempt are of another run: an earlier attempt, or another job with
the same output folder.
"""

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from trainshed.engines.supervise.record.reports import Names, Reported, printable
from trainshed.engines.supervise.watch.event_files import EventFile
from trainshed.files.beneath import Beneath, PathBeneath

#: TensorBoard recognises event files by this part of their names.
PART: Final = "tfevents"
#: Limits of a search for event files; a larger folder holds other data.
FOLDERS_MAX: Final = 1000
FILES_MAX: Final = 1000
ENTRIES_MAX: Final = 100_000
#: The share of the time that searches for event files may take.
_SEARCH_SHARE: Final = 0.05
_SEARCH_S_MIN: Final = 1.0
_TROUBLE_CHARS_MAX: Final = 200


class EventSource(NamedTuple):
    """Reports of one event file."""

    evaluates: bool
    """Whether an evaluation wrote the file; its metrics differ from those of the training."""
    reports: list[Reported]


class EventFolder:
    """One folder with all folders below it."""

    def __init__(self, path: str, roots: Iterable[str] = ()) -> None:
        """List the present files, if the folder exists.

        Other programs may write below the folders in ``roots``.
        """
        self.path = path
        self._place = PathBeneath.of(path, roots)
        self._names = Names()
        self._files: dict[str, EventFile] = {}
        self._is_too_much = False
        self._search_at_s = 0.0
        self._search(_size)
        self._old_count = len(self._files)

    def read(self, until_s: float, *, is_last: bool = False) -> Iterator[EventSource]:
        """Yield the new reports of each record, those of evaluations first.

        Stop at ``until_s``, a time of ``time.monotonic``.  ``is_last``: first search for new files.
        """
        if is_last or time.monotonic() >= self._search_at_s:
            self._search(lambda _path: 0)
        for file in sorted(self._files.values(), key=lambda f: not evaluates(f.path, self.path)):
            if not file.has_changed():
                continue
            for reports in file.read():
                for report in reports:
                    self._names.add(report.tag)
                yield EventSource(evaluates(file.path, self.path), reports)
                if time.monotonic() >= until_s:
                    return

    def description(self) -> str:
        """Describe what the folder contains, for people."""
        if self._names:
            text = f"event files in {self.path} have the {self._names.after('tag')}"
        elif len(self._files) > self._old_count:
            text = f"event files in {self.path} have no scalars"
        else:
            text = f"there are no new event files in {self.path}"
        return text + "".join(self._troubles())

    def _troubles(self) -> Iterator[str]:
        """Yield the first file that cannot be read, and the number of damaged records."""
        for file in self._files.values():
            if file.trouble:
                yield f" ({printable(file.path, _TROUBLE_CHARS_MAX)}: {file.trouble})"
                break
        damaged = sum(file.damaged for file in self._files.values())
        if damaged:
            yield f" ({damaged} damaged records were skipped)"
        if self._is_too_much:
            yield (
                f" (not all was searched: the limits are {FOLDERS_MAX} folders, {FILES_MAX} event "
                f"files and {ENTRIES_MAX} entries)"
            )

    def _search(self, offset_of: Callable[[str], int]) -> None:
        """Add new event files; ``offset_of`` returns the offset at which to begin each."""
        began_s = time.monotonic()
        try:
            for place in list_event_files(self._place):
                if len(self._files) >= FILES_MAX:
                    self._is_too_much = True
                elif place.path not in self._files:
                    self._files[place.path] = EventFile(place, offset_of(place.path))
        except OSError as error:
            self._is_too_much = self._is_too_much or error.errno == errno.E2BIG
        now_s = time.monotonic()
        self._search_at_s = now_s + max(_SEARCH_S_MIN, (now_s - began_s) / _SEARCH_SHARE)


def list_event_files(top: PathBeneath) -> Iterator[PathBeneath]:
    """Yield the event files of a folder and of all folders below it.

    Raises OSError: E2BIG after ``FOLDERS_MAX`` folders or ``ENTRIES_MAX`` entries.
    """
    with Beneath(top.root) as tree:
        folders = tree.walk(top.name, ENTRIES_MAX, lambda name: not name.startswith("."))
        for count, (folder, names) in enumerate(folders, start=1):
            for name in sorted(name for name in names if PART in name):
                yield top._replace(name=f"{folder}/{name}".lstrip("/"))
            if count >= FOLDERS_MAX:
                raise OSError(errno.E2BIG, "too many folders", folder)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def evaluates(path: str, top: str) -> bool:
    """Return whether an evaluation wrote a file (Keras' ``validation``, Estimator's ``eval_X``)."""
    folders = path[len(top) :].lower().split("/")[:-1]
    return any(name.startswith(("eval", "valid")) or name in {"val", "test"} for name in folders)
