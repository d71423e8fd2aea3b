"""Prevents an older attempt of a job from writing into a directory that a newer attempt uses.

A node that the server cannot reach may still run a program while its job runs again on another
node.  Each attempt therefore creates a mark in the directory: an empty file with its number in the
name.  In a single file, an older attempt could overwrite the number of a newer one.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Iterator, Mapping

from trainshed_trainer.contract import TRAINSHED_JOB
from trainshed_trainer.files import write_whole

#: The value of TRAINSHED_JOB in every process of an attempt: ``UID/ATTEMPT``.
KEY = re.compile(r"([0-9]{1,20})/([1-9][0-9]{0,8})")


class NewerAttemptError(RuntimeError):
    """A newer attempt of the job writes into this directory; this attempt should end."""


class Fence:
    """Refuses writes of one attempt into a directory that a newer attempt of its job has marked."""

    def __init__(self, directory: Path, job: str, attempt: int) -> None:
        """``job`` is a number that is unique to the job."""
        self._directory, self._job, self._attempt = directory, job, attempt
        self._mark = re.compile(rf"\.attempt-{job}-([1-9][0-9]{{0,8}})")

    def enter(self) -> None:
        """Create this attempt's mark, durably.  Raises NewerAttemptError."""
        marks = dict(self._marks())
        self._refuse_if_newer(marks)
        if self._attempt not in marks:
            write_whole(self._directory / f".attempt-{self._job}-{self._attempt}", lambda _: None)
            self.check()
        for number, path in marks.items():
            if number < self._attempt:  # the newest mark alone is enough
                with suppress(OSError):
                    path.unlink()

    def check(self) -> None:
        """Raise NewerAttemptError if a newer attempt has created its mark."""
        self._refuse_if_newer(dict(self._marks()))

    def _marks(self) -> Iterator[tuple[int, Path]]:
        """List the marks; looking up single names could return old results on a shared disk."""
        if not self._directory.is_dir():
            return
        for path in self._directory.iterdir():
            match = self._mark.fullmatch(path.name)
            if match:
                yield int(match.group(1)), path

    def _refuse_if_newer(self, marks: Mapping[int, Path]) -> None:
        newest = max(marks, default=0)
        if newest > self._attempt:
            raise NewerAttemptError(
                f"attempt {newest} of this job writes into {self._directory}, so attempt "
                f"{self._attempt} must not save any more: end this program"
            )


def fence_of(directory: Path, environ: Mapping[str, str] | None = None) -> Fence | None:
    """Return the fence of the attempt that the environment names, or None outside of a job.

    Raises ValueError, which contains the variable's name, for a malformed value.
    """
    text = (os.environ if environ is None else environ).get(TRAINSHED_JOB)
    if not text:
        return None
    match = KEY.fullmatch(text)
    if match is None:
        raise ValueError(f"{TRAINSHED_JOB} must be JOB_NUMBER/ATTEMPT, got {text!r}")
    return Fence(directory, match.group(1), int(match.group(2)))
