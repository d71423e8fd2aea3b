"""The last few checkpoints of one program: numbered by step, whole, the oldest removed."""

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

#: A file that is being written is older than this, in seconds, before it can be taken for a
#: leftover: its writer locks it right after making it.
GRACE_S = 60.0


def checkpoint_saver(
    directory: str | os.PathLike[str] | None = None,
    keep_last: int = 3,
    prefix: str = "checkpoint",
    suffix: str = "",
) -> CheckpointSaver:
    """Make what saves checkpoints named ``<prefix>-<step><suffix>``, of which the last few stay.

    Without a directory it is the one that ``latest_checkpoint`` looks into.  One process at a time
    may save under one prefix; replicas that each keep a part of a state have prefixes of their own.

    In a job, the directory belongs to the job's newest attempt from here on: make the saver before
    you look for the latest checkpoint.  Raises NewerAttemptError where a newer one has begun, and
    ValueError if fewer than one should stay or a name would leave the directory.
    """
    if keep_last < 1:
        raise ValueError(f"keep_last should be 1 or more, not {keep_last}")
    if not prefix or prefix.startswith(".") or set("/\\") & set(prefix + suffix):
        raise ValueError(f"{prefix!r} and {suffix!r} make no name of a file in the directory")
    where = checkpoint_directory(directory)
    fence = fence_of(where)
    if fence is not None:
        with suppress(OSError):  # a replica that saves nothing need not be able to
            fence.enter()
    return CheckpointSaver(where, keep_last, prefix, suffix, fence)


class CheckpointSaver:
    """Saves checkpoints into ``directory``; made by ``checkpoint_saver``.

    Where a newer attempt of the job has begun, nothing is saved and nothing is removed.  It is
    looked for three times: before anything is written, when only the name is missing, and when the
    checkpoint has its name.  What cannot be held: between the second look and the name a newer
    attempt may begin, and a writer that stands still just there, or whose file system shows it an
    old list of names, leaves one more checkpoint beside, or in the place of one of the same step.
    It is whole, of the same job, and its writer learns of it at the third look.
    """

    def __init__(
        self, directory: Path, keep_last: int, prefix: str, suffix: str, fence: Fence | None = None
    ) -> None:
        """Take what ``checkpoint_saver`` has checked."""
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
        """Save a checkpoint; when this returns it is on the disk, whole, and older ones may go.

        ``writer`` is given an open binary file.  A checkpoint of the same step is replaced.  Who is
        killed in here leaves every earlier checkpoint as it was.  Removed are only files that have
        exactly the names formed here, and what an earlier, killed process had half written.

        Raises NewerAttemptError where a newer attempt of the job has begun: this one should end.
        """
        step = int(step)
        if step < 0:
            raise ValueError(f"a step should be 0 or more, not {step}")
        path = self.directory / f"{self._prefix}-{step}{self._suffix}"
        if self._fence is None:
            write_whole(path, writer)
        else:
            self._fence.enter()
            write_whole(path, writer, allow=self._fence.check)
            self._fence.check()
        self._remove_older(path)
        self._remove_leftovers()
        return path

    def saved(self) -> list[Path]:
        """List the checkpoints there are under this saver's names, the highest step last."""
        if not self.directory.is_dir():
            return []
        checkpoints = []
        for path in self.directory.iterdir():
            match = self._own.fullmatch(path.name)
            if match and path.is_file() and not path.is_symlink():
                checkpoints.append((int(match.group(1)), path))
        return [path for _, path in sorted(checkpoints)]

    def _remove_older(self, newest: Path) -> None:
        """Remove all but the last few; the one just saved stays, even where higher steps lie."""
        for path in self.saved()[: -self.keep_last]:
            if path != newest:
                path.unlink(missing_ok=True)

    def _remove_leftovers(self) -> None:
        for path in self.directory.iterdir():
            if self._leftover.fullmatch(path.name):
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    """Remove a half-written file if nobody writes it any more: its writer's lock is free."""
    try:
        with path.open("rb") as file:
            is_old = time.time() - os.fstat(file.fileno()).st_mtime > GRACE_S
            if is_old and try_lock(file.fileno()):
                path.unlink(missing_ok=True)
    except FileNotFoundError:  # it was renamed: somebody had just finished it
        return
