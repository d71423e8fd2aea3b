"""Reuses an attempt's last observation while its folder and its cluster's answer are the same.

Thousands of attempts may wait or run, and a full observation reads several files.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import Observation

#: The longest step of a file system's clock: two changes in one step leave the same time.
CLOCK_STEP_S: Final = 2.0


@dataclass(slots=True)
class LastObservation:
    """The last observation of one attempt, and the states that it was made from."""

    observation: Observation | None = None
    """None: the attempt could not be observed."""
    _files: tuple[object, ...] | None = None
    """The last state of the folder."""
    _since_s: float = 0.0
    """When this state was first read, in seconds of the monotonic clock."""
    _states: tuple[object, ...] | None = None
    """The states for which the observation holds; None: it must be made again."""

    def reuse(
        self, files: tuple[object, ...] | None, answer: tuple[object, ...], now_s: float
    ) -> Observation | None:
        """Return the observation if it holds for these states; None: the caller must observe again.

        ``files`` of None equals no other state.  An observation is reused only if it was made
        ``CLOCK_STEP_S`` after the state of the folder was first read: a change after it gives the
        folder another time.
        """
        if files is None or files != self._files:
            self._files, self._since_s, self._states = files, now_s, None
        elif self._states == (files, answer):
            return self.observation
        is_settled = files is not None and now_s - self._since_s >= CLOCK_STEP_S
        self._states = (files, answer) if is_settled else None
        return None


def read_folder_state(folder: AttemptFolder) -> tuple[object, ...] | None:
    """Return a value that changes with the files of a folder; None if it cannot be read."""
    try:
        status = os.lstat(folder.path)
        size = -1
        with suppress(FileNotFoundError):
            size = os.lstat(folder.records).st_size
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, size
