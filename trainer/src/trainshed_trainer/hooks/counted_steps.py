"""Numbers the steps of a process by the count that its framework restores from a checkpoint."""

from __future__ import annotations

import os

from trainshed_trainer import contract
from trainshed_trainer.steps import StepTimes


class CountedSteps:
    """Decides whether the framework's count has the numbers of the job's steps.

    Wrong numbers would count steps as lost that were kept.  So there are none from the time on at
    which a count is below the last one, and in a later attempt that did not restore its count.
    """

    def __init__(self) -> None:
        """Decide with the first count."""
        self._has_numbers: bool | None = None
        self._last = 0

    def add(self, times: StepTimes, count: int, own: int) -> None:
        """Number the newest step; this process has made ``own`` of the ``count`` steps."""
        if self._has_numbers is None:
            is_first = os.environ.get(contract.TRAINSHED_ATTEMPT, "1") == "1"
            self._has_numbers = is_first or count > own
        if count < self._last:
            self.stop(times)
        self._last = count
        if self._has_numbers:
            times.number(count, counted=True)

    def stop(self, times: StepTimes) -> None:
        """Drop the numbers, and count no more: another optimizer has another count."""
        if self._has_numbers:
            times.forget_counts()
        self._has_numbers = False


#: The steps of this process.
COUNTED_STEPS = CountedSteps()
