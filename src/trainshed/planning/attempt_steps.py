"""The steps of an ended attempt as the data of its last event, for the goodput of its job.

The end of each attempt has an event, and an attempt that was lost has no other record of its steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any, Final

from trainshed.model.step_times import StepTimes
from trainshed.model.usage import UsageLine
from trainshed.planning.goodput import AttemptTimes

#: The key of the steps in the data of an attempt's last event.
STEPS_MADE: Final = "steps_made"
#: The key of the steps that were read from files, by attempt, in the data of a job's event GOODPUT.
STEPS_READ: Final = "steps_read"
#: The key of the time when the attempt ended, which can be long before its event; else absent.
ENDED_S: Final = "ended_s"
#: The key of the seconds by which the machine's clock was ahead of the store's then; else absent.
SKEW_S: Final = "skew_s"
#: The key of the seconds from the notice of the primary to its end; absent without a notice.
NOTICE_S: Final = "notice_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsMade:
    """The first and the last step of an attempt, as its primary reported them."""

    first_s: float
    """The time of the first report, in seconds since 1970."""
    last_s: float
    first_step: int | None = None
    last_step: int | None = None
    step_s: float | None = None
    """Seconds of a step, without stalls and saving; None if numbers are unknown."""
    checkpoint_step: int | None = None
    checkpoint_s: float | None = None
    """When the newest checkpoint was complete, in seconds since 1970; None if unknown."""
    stalled_s: float = 0.0
    saving_s: float | None = None

    @property
    def data(self) -> dict[str, object]:
        """The steps as the data of an event."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        return {STEPS_MADE: values}

    @classmethod
    def of_attempt(cls, attempt: AttemptTimes) -> "StepsMade | None":
        """Return the steps that ``add_to`` has added to an attempt; None if it has none."""
        if attempt.first_step_s is None:
            return None
        return cls(
            first_s=attempt.first_step_s,
            last_s=attempt.first_step_s if attempt.last_step_s is None else attempt.last_step_s,
            first_step=attempt.first_step,
            last_step=attempt.last_step,
            step_s=attempt.step_s,
            checkpoint_step=attempt.checkpoint_step,
            checkpoint_s=attempt.checkpoint_s,
            stalled_s=attempt.stalled_s,
            saving_s=attempt.saving_s,
        )

    def add_to(self, attempt: AttemptTimes) -> AttemptTimes:
        """Return the times of an attempt with these steps."""
        return replace(
            attempt,
            first_step=self.first_step,
            first_step_s=self.first_s,
            last_step=self.last_step,
            last_step_s=self.last_s,
            step_s=self.step_s,
            checkpoint_step=self.checkpoint_step,
            checkpoint_s=self.checkpoint_s,
            stalled_s=self.stalled_s,
            saving_s=self.saving_s,
        )


def steps_made(times: StepTimes | None) -> StepsMade | None:
    """Return the first and the last step of a report; None if it has no step."""
    if times is None or not times.first_at:
        return None
    span_s = times.last_at - times.first_at - times.stalled_s - times.saving_s
    return StepsMade(
        first_s=times.first_at,
        last_s=max(times.first_at, times.last_at),
        first_step=times.first_step,
        last_step=times.last_step,
        step_s=max(0.0, span_s) / times.numbered if times.numbered else None,
        # a program may give its checkpoints other numbers than those that the framework counts
        checkpoint_step=None if times.counted else times.checkpoint_step,
        checkpoint_s=times.checkpoint_at or None,
        stalled_s=times.stalled_s,
        saving_s=times.saving_s or None,
    )


def steps_in_usage(lines: Iterable[UsageLine], task_name: str) -> StepsMade | None:
    """Return the first and the last step in the lines of a replica; None without a step.

    Times are those of lines, 10 s or a minute apart.  For attempts whose report of steps is on a
    node that was lost.
    """
    steps = [
        (line, usage.step)
        for line in lines
        if (usage := line.replicas.get(task_name)) is not None and usage.step is not None
    ]
    if not steps:
        return None
    numbers = [number for _, step in steps for number in step]
    numbered = sum(max(0, later - step) for step, later in pairwise(numbers))
    first_s = steps[0][0].at - steps[0][0].s
    last_s = max(first_s, _last_progress_s(steps))
    return StepsMade(
        first_s=first_s,
        last_s=last_s,
        first_step=numbers[0],
        last_step=numbers[-1],
        step_s=(last_s - first_s) / numbered if numbered else None,
    )


def _last_progress_s(steps: Sequence[tuple[UsageLine, tuple[int, int]]]) -> float:
    """Return the time of the last line in which the step was not that of the line before."""
    before = None
    last_s = 0.0
    for line, step in steps:
        if step != (before, before):
            last_s = line.at
        before = step[1]
    return last_s


def read_steps_made(data: Mapping[str, Any]) -> StepsMade | None:
    """Read the steps from the data of an event; None if it has none."""
    values = data.get(STEPS_MADE)
    if not isinstance(values, dict) or not {"first_s", "last_s"} <= values.keys():
        return None
    names = {field.name for field in fields(StepsMade)}
    return StepsMade(**{name: value for name, value in values.items() if name in names})
