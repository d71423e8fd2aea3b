"""Keeps an older attempt of a job from writing where a newer one has begun.

A node that nobody reaches may run on, and with it a program whose job was started again elsewhere.
Each attempt therefore leaves a mark in the directory: an empty file with its number in the name.
One file that all rewrite would not do: a late writer could take back what a newer attempt has said.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Iterator, Mapping

from trainshed_trainer.contract import TRAINSHED_JOB
from trainshed_trainer.files import write_whole

#: What Trainshed says to every process of an attempt: ``UID/ATTEMPT``.
KEY = re.compile(r"([0-9]{1,20})/([1-9][0-9]{0,8})")


class NewerAttemptError(RuntimeError):
    """A newer attempt of the job writes here, and this one may not any more: it should end."""


class Fence:
    """What one attempt of one job may still write into a directory."""

    def __init__(self, directory: Path, job: str, attempt: int) -> None:
        """``job`` is a number that no other job has."""
        self._directory, self._job, self._attempt = directory, job, attempt
        self._mark = re.compile(rf"\.attempt-{job}-([1-9][0-9]{{0,8}})")

    def enter(self) -> None:
        """Leave this attempt's mark, on the disk when this returns.  Raises NewerAttemptError."""
        marks = dict(self._marks())
        self._refuse_if_newer(marks)
        if self._attempt not in marks:
            write_whole(self._directory / f".attempt-{self._job}-{self._attempt}", lambda _: None)
            self.check()
        for number, path in marks.items():
            if number < self._attempt:  # a newer mark says all that an older one did
                with suppress(OSError):
                    path.unlink()

    def check(self) -> None:
        """Raise NewerAttemptError where a newer attempt has left its mark."""
        self._refuse_if_newer(dict(self._marks()))

    def _marks(self) -> Iterator[tuple[int, Path]]:
        """List the directory: asked for one name, a shared file system may answer of long ago."""
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
                f"attempt {newest} of this job has begun to write in {self._directory}, "
                f"and this is attempt {self._attempt}: nothing is saved any more"
            )


def fence_of(directory: Path, environ: Mapping[str, str] | None = None) -> Fence | None:
    """Give the fence of the attempt that the environment names; None outside of a job.

    Raises ValueError, with the variable's name in it, for an attempt that makes no sense.
    """
    text = (os.environ if environ is None else environ).get(TRAINSHED_JOB)
    if not text:
        return None
    match = KEY.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{TRAINSHED_JOB} should be a job's number, / and an attempt, not {text!r}"
        )
    return Fence(directory, match.group(1), int(match.group(2)))
