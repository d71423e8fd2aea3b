"""Saves checkpoints numbered by step, atomically, and removes all but the last few."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Callable

from trainshed_trainer.checkpoint import checkpoint_directory
from trainshed_trainer.fence import Fence, fence_of
from trainshed_trainer.files import PARTIAL, try_lock, write_whole
from trainshed_trainer.steps import step_times

#: Seconds after which an unlocked temporary file is a leftover; its writer locks it before that.
GRACE_S = 60.0


def checkpoint_saver(
    directory: str | os.PathLike[str] | None = None,
    keep_last: int = 3,
    prefix: str = "checkpoint",
    suffix: str = "",
) -> CheckpointSaver:
    """Return a saver of checkpoints named ``<prefix>-<step><suffix>`` that keeps the last few.

    The default directory is that of ``latest_checkpoint``.  Only one process at a time may save
    under a prefix; replicas that each save a part of the state need different prefixes.

    In a job, only the newest attempt may save into the directory from this call on: create the
    saver before you look for the latest checkpoint.  Raises NewerAttemptError if a newer attempt
    uses the directory, and ValueError for a ``keep_last`` below 1 or a name with a slash.
    """
    if keep_last < 1:
        raise ValueError(f"keep_last must be 1 or more, got {keep_last}")
    if not prefix or prefix.startswith(".") or set("/\\") & set(prefix + suffix):
        raise ValueError(
            "prefix and suffix must make a file name without slashes and without a leading dot,"
            f" got {prefix!r} and {suffix!r}"
        )
    path = checkpoint_directory(directory)
    fence = fence_of(path)
    if fence is not None:
        with suppress(OSError):  # a replica that never saves need not have write access
            fence.enter()
    return CheckpointSaver(path, keep_last, prefix, suffix, fence)


class CheckpointSaver:
    """Saves checkpoints into ``directory``; created by ``checkpoint_saver``.

    If a newer attempt of the job uses the directory, nothing is saved and nothing is removed.
    ``save`` checks this three times: before it writes, before it renames the file, and after the
    rename.  One gap remains: a newer attempt may begin between the second check and the rename, or
    a shared file system may show an old listing.  The older attempt then leaves one more checkpoint
    or replaces one of the same step.  This checkpoint is complete, and the third check raises the
    error.
    """

    def __init__(
        self, directory: Path, keep_last: int, prefix: str, suffix: str, fence: Fence | None = None
    ) -> None:
        """Use ``checkpoint_saver``, which checks the arguments."""
        self.directory = directory
        self._fence = fence
        self.keep_last = keep_last
        self._prefix, self._suffix = prefix, suffix
        start, end = re.escape(prefix), re.escape(suffix)
        self._own = re.compile(rf"{start}-(0|[1-9][0-9]*){end}")
        self._leftover = re.compile(
            rf"\.{start}-(?:0|[1-9][0-9]*){end}\.[0-9a-f]{{8}}{re.escape(PARTIAL)}"
        )

    def save(self, step: int, writer: Callable[[BinaryIO], object]) -> Path:
        """Save a checkpoint durably, then remove the oldest ones.

        ``writer`` gets an open binary file.  A checkpoint of the same step is replaced.  A kill at
        any moment leaves every earlier checkpoint unchanged.  Only files with exactly this saver's
        names and temporary files of killed processes are removed.

        Raises NewerAttemptError if a newer attempt uses the directory: end the program then.
        """
        step = int(step)
        if step < 0:
            raise ValueError(f"step must be 0 or more, got {step}")
        path = self.directory / f"{self._prefix}-{step}{self._suffix}"
        if self._fence is None:
            write_whole(path, writer)
        else:
            self._fence.enter()
            write_whole(path, writer, allow=self._fence.check)
            self._fence.check()
        if (times := step_times()) is not None:
            times.saved(step)
        self._remove_older(path)
        self._remove_leftovers()
        return path

    def saved(self) -> list[Path]:
        """List the existing checkpoints with this saver's prefix and suffix, in order of steps."""
        if not self.directory.is_dir():
            return []
        checkpoints = []
        for path in self.directory.iterdir():
            match = self._own.fullmatch(path.name)
            if match and path.is_file() and not path.is_symlink():
                checkpoints.append((int(match.group(1)), path))
        return [path for _, path in sorted(checkpoints)]

    def _remove_older(self, newest: Path) -> None:
        """Remove all but the last few; the newest file stays even if others have higher steps."""
        for path in self.saved()[: -self.keep_last]:
            if path != newest:
                path.unlink(missing_ok=True)

    def _remove_leftovers(self) -> None:
        for path in self.directory.iterdir():
            if self._leftover.fullmatch(path.name):
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    """Remove a temporary file if no process holds its writer's lock."""
    try:
        with path.open("rb") as file:
            is_old = time.time() - os.fstat(file.fileno()).st_mtime > GRACE_S
            if is_old and try_lock(file.fileno()):
                path.unlink(missing_ok=True)
    except FileNotFoundError:  # its writer has just renamed it
        return
