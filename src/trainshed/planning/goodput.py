"""Divides the time of a job's attempts into buckets, and computes its goodput from them.

The only definition of goodput: productive time over the time in which the job held its machines.
Seconds are added up, and a ratio is never averaged.  A job that does not report its steps gets an
upper bound and no number.  docs/how-to/observe.md explains the terms.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainshed.planning.amounts import lasting

#: The buckets of the time in which an attempt holds its machines, by their name in answers.
HELD_BUCKETS: Final = ("starting", "lost", "stalled", "saving", "stopping", "productive")
#: All times of a job, by their name in answers.
BUCKETS: Final = ("wall", "first_wait", "other_waits", "held", *HELD_BUCKETS)
#: A bucket with a smaller share of the held time is left out of sentences.
_SHARE_MIN: Final = 0.0005
HOW_TO_REPORT: Final = "call trainshed_trainer.progress(step) after each step"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTimes:
    """When an attempt got its machines, made its steps and ended; in seconds since 1970."""

    attempt: int
    placed_s: float
    running_s: float | None = None
    """When all replicas ran; None: never."""
    ended_s: float | None = None
    """None: the attempt goes on."""
    first_step: int | None = None
    """The number of the first step that was reported; None if numbers are unknown."""
    first_step_s: float | None = None
    """When the first step was reported; None: no step was reported."""
    last_step: int | None = None
    last_step_s: float | None = None
    step_s: float | None = None
    """Seconds of a step, without stalls and saving; None if unknown."""
    checkpoint_step: int | None = None
    """The step of the newest whole checkpoint; None if unknown."""
    checkpoint_s: float | None = None
    """When it was complete, in seconds since 1970; None if unknown."""
    stalled_s: float = 0.0
    """Seconds by which slow steps exceeded the median, as the trainer measured them."""
    hangs: tuple[tuple[float, float], ...] = ()
    """Begin and end of the hangs that the supervisor reported."""
    saving_s: float | None = None
    """Seconds of saving checkpoints; None: the trainer does not report them."""
    stop_s: float | None = None
    """When the attempt got its notice; None: it ended by itself."""
    has_failed: bool = False
    """Whether the attempt ended without success and without a notice."""
    gpus: int = 0
    vcpus: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTimes:
    """When a job was accepted and ended, in seconds since 1970, and the times of its attempts."""

    accepted_s: float
    ended_s: float | None = None
    """None: the job goes on."""
    attempts: tuple[AttemptTimes, ...] = ()
    """In order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """The buckets of the time of an attempt or a job, and the ratios; all times in seconds."""

    wall_s: float = 0.0
    """From acceptance to the end, or until now; of an attempt, the held time."""
    first_wait_s: float = 0.0
    other_waits_s: float = 0.0
    """Waits after restarts."""
    held_s: float = 0.0
    """The time with machines: the sum of the following buckets."""
    starting_s: float = 0.0
    lost_s: float = 0.0
    """Steps that a later attempt had to repeat, and the time from the last step to a failure."""
    stalled_s: float = 0.0
    saving_s: float = 0.0
    """Saving checkpoints, if the trainer reports it; otherwise part of ``productive_s``."""
    stopping_s: float = 0.0
    productive_s: float = 0.0
    """The rest.  If ``is_bound``, the time of which nothing else is known."""
    is_bound: bool = False
    """Whether the productive time is unknown, and ``productive_s`` is the most that it can be."""
    lacks_steps: bool = False
    """Whether it is unknown because no steps were reported, and not where a restart went on."""

    @property
    def ratio(self) -> float | None:
        """Productive over held time; None if it is unknown, or nothing was held."""
        return None if self.is_bound else self._highest

    @property
    def at_most(self) -> float | None:
        """The upper bound of an unknown ratio; None for a known one, or if nothing was held."""
        return self._highest if self.is_bound else None

    @property
    def scheduling(self) -> float | None:
        """Held over wall time; None without wall time."""
        return min(1.0, self.held_s / self.wall_s) if self.wall_s > 0 else None

    @property
    def ettr(self) -> float | None:
        """Productive over wall time; None if it is unknown."""
        if self.is_bound or self.wall_s <= 0:
            return None
        return min(1.0, self.productive_s / self.wall_s)

    @property
    def seconds(self) -> Mapping[str, float]:
        """The buckets by their names in answers (``BUCKETS``)."""
        return {name: getattr(self, f"{name}_s") for name in BUCKETS}

    @property
    def held_seconds(self) -> Mapping[str, float]:
        """The uses of the held time by their names in answers (``HELD_BUCKETS``)."""
        return {name: value for name, value in self.seconds.items() if name in HELD_BUCKETS}

    @property
    def words(self) -> str:
        """The goodput in one sentence, with the buckets that reduce it."""
        if self._highest is None:
            return "Goodput is not known: the job has not held machines yet."
        parts = ", ".join(self._list_reductions())
        after = f"; {self._why_bound}" if self.is_bound else ""
        return f"{self.short_words} of {lasting(self.held_s)}{parts and ': '}{parts}{after}."

    @property
    def short_words(self) -> str:
        """The goodput alone: ``Goodput 93.3 %`` or ``Goodput at most 97.0 %``."""
        if self._highest is None:
            return "Goodput is not known"
        # a bound is rounded up: the ratio is not above it
        percent = math.ceil(1000 * self._highest) / 10 if self.is_bound else 100 * self._highest
        return f"Goodput {'at most ' if self.is_bound else ''}{percent:.1f} %"

    @property
    def _why_bound(self) -> str:
        if self.lacks_steps:
            return f"the job reports no steps: {HOW_TO_REPORT}"
        return f"no later attempt has reported its first step so far; {HOW_TO_REPORT}"

    @property
    def _highest(self) -> float | None:
        return min(1.0, self.productive_s / self.held_s) if self.held_s > 0 else None

    def _list_reductions(self) -> Iterable[str]:
        for name in HELD_BUCKETS[:-1]:
            seconds = self.seconds[name]
            if seconds > _SHARE_MIN * self.held_s:
                yield f"{name} {lasting(seconds)}"

    def times(self, factor: float) -> "Goodput":
        """Return the goodput with all buckets multiplied, as for GPU-seconds."""
        values = {f"{name}_s": factor * value for name, value in self.seconds.items()}
        return Goodput(**values, is_bound=self.is_bound, lacks_steps=self.lacks_steps)


def add_goodputs(parts: Iterable[Goodput]) -> Goodput:
    """Add the buckets of goodputs; the sum is a bound if one of them is."""
    parts = list(parts)
    sums = {f"{name}_s": math.fsum(part.seconds[name] for part in parts) for name in BUCKETS}
    bounds = [part for part in parts if part.is_bound and part.productive_s]
    return Goodput(
        **sums, is_bound=bool(bounds), lacks_steps=any(part.lacks_steps for part in bounds)
    )


def attempt_goodputs(job: JobTimes, now_s: float) -> Sequence[Goodput]:
    """Return the goodput of each attempt of a job, in order."""
    return [_divide(job, index, now_s) for index in range(len(job.attempts))]


def job_goodput(job: JobTimes, now_s: float) -> Goodput:
    """Return the goodput of a job until its end, or until now."""
    total = add_goodputs(attempt_goodputs(job, now_s))
    end_s = max(job.accepted_s, now_s if job.ended_s is None else job.ended_s)
    first_s = min([attempt.placed_s for attempt in job.attempts[:1]] or [end_s])
    wall_s = max(end_s - job.accepted_s, total.held_s)
    first_wait_s = min(max(0.0, first_s - job.accepted_s), wall_s - total.held_s)
    return replace(
        total,
        wall_s=wall_s,
        first_wait_s=first_wait_s,
        other_waits_s=wall_s - total.held_s - first_wait_s,
    )


def gpu_seconds(job: JobTimes, now_s: float) -> Goodput:
    """Return the buckets of a job's attempts in GPU-seconds."""
    pairs = zip(job.attempts, attempt_goodputs(job, now_s), strict=True)
    return add_goodputs(goodput.times(attempt.gpus) for attempt, goodput in pairs)


def study_goodput(jobs: Iterable[JobTimes], now_s: float) -> Goodput:
    """Return the goodput of all trials of a study, each weighted with its GPUs.

    If no trial has GPUs, the weights are vCPUs.  Trials that were stopped early are productive.
    """
    jobs = list(jobs)
    has_gpus = any(_weigh(job, has_gpus=True) for job in jobs)
    return add_goodputs(
        job_goodput(job, now_s).times(_weigh(job, has_gpus=has_gpus)) for job in jobs
    )


def _weigh(job: JobTimes, *, has_gpus: bool) -> float:
    weights = (attempt.gpus if has_gpus else attempt.vcpus or 1.0 for attempt in job.attempts)
    return max(weights, default=0.0)


@dataclass(frozen=True, slots=True)
class _Window:
    """The time of an attempt from its placement to its end or its notice."""

    placed_s: float
    work_end_s: float
    end_s: float

    def clamp(self, time_s: float, least_s: float | None = None) -> float:
        low = self.placed_s if least_s is None else least_s
        return min(max(time_s, low), self.work_end_s)


def _divide(job: JobTimes, index: int, now_s: float) -> Goodput:
    attempt = job.attempts[index]
    window = _window(attempt, now_s)
    if attempt.first_step_s is None:
        return _divide_without_steps(job, index, window)
    return _divide_with_steps(job, index, window, attempt.first_step_s)


def _window(attempt: AttemptTimes, now_s: float) -> _Window:
    placed_s = attempt.placed_s
    end_s = max(placed_s, now_s if attempt.ended_s is None else attempt.ended_s)
    stop_s = end_s if attempt.stop_s is None else attempt.stop_s
    return _Window(placed_s, min(max(stop_s, placed_s), end_s), end_s)


def _divide_with_steps(job: JobTimes, index: int, window: _Window, first_at: float) -> Goodput:
    attempt = job.attempts[index]
    first_s = window.clamp(first_at)
    last_s = window.clamp(first_at if attempt.last_step_s is None else attempt.last_step_s, first_s)
    hung_after_s = _overlap(attempt.hangs, last_s, window.work_end_s)
    hung_within_s = _overlap(attempt.hangs, first_s, last_s)
    repeated_s, is_bound = _repeated_s(job, index, last_s - first_s)
    lost_s = repeated_s
    if attempt.has_failed or not _is_last(job, index):
        lost_s += window.work_end_s - last_s - hung_after_s
    stalled_s = max(attempt.stalled_s, hung_within_s) + hung_after_s
    return _fill(window, first_s, (lost_s, stalled_s, attempt.saving_s or 0.0), is_bound=is_bound)


def _divide_without_steps(job: JobTimes, index: int, window: _Window) -> Goodput:
    attempt = job.attempts[index]
    running_s = window.work_end_s
    if attempt.running_s is not None and not _made_no_step(job, index):
        running_s = window.clamp(attempt.running_s)
    stalled_s = _overlap(attempt.hangs, running_s, window.work_end_s)
    parts = (0.0, stalled_s, attempt.saving_s or 0.0)
    is_bound = running_s < window.work_end_s
    goodput = _fill(window, running_s, parts, is_bound=is_bound)
    return replace(goodput, lacks_steps=is_bound)


def _fill(
    window: _Window, started_s: float, parts: tuple[float, float, float], *, is_bound: bool
) -> Goodput:
    """Fill the buckets; what lost, stalled and saving time leave is productive."""
    rest_s = window.work_end_s - started_s
    filled = []
    for seconds in parts:
        filled.append(min(max(0.0, seconds), rest_s))
        rest_s -= filled[-1]
    lost_s, stalled_s, saving_s = filled
    held_s = window.end_s - window.placed_s
    return Goodput(
        wall_s=held_s,
        held_s=held_s,
        starting_s=started_s - window.placed_s,
        lost_s=lost_s,
        stalled_s=stalled_s,
        saving_s=saving_s,
        stopping_s=window.end_s - window.work_end_s,
        productive_s=rest_s,
        is_bound=is_bound,
    )


def _is_last(job: JobTimes, index: int) -> bool:
    """Whether no attempt follows, and none will: the job or the attempt goes on, or both ended."""
    is_newest = index == len(job.attempts) - 1
    return is_newest and (job.ended_s is not None or job.attempts[index].ended_s is None)


def _made_no_step(job: JobTimes, index: int) -> bool:
    """Whether other attempts show that this one, which reported no step, completed none."""
    earlier = [attempt for attempt in job.attempts[:index] if attempt.first_step_s is not None]
    resumed = _first_step_after(job, index)
    if resumed is None:
        return bool(earlier)
    reached = max((attempt.last_step or 0 for attempt in earlier), default=0)
    return resumed <= reached + 1


def _first_step_after(job: JobTimes, index: int) -> int | None:
    """Return the lowest step from which a later attempt went on; None if none reported it."""
    steps = (attempt.first_step for attempt in job.attempts[index + 1 :])
    return min([step for step in steps if step is not None], default=None)


def _repeated_s(job: JobTimes, index: int, stepping_s: float) -> tuple[float, bool]:
    """Return the seconds of the steps that were not kept, and whether they are unknown."""
    attempt = job.attempts[index]
    if _is_last(job, index):
        return 0.0, False
    resumed = _first_step_after(job, index)
    resumed = attempt.checkpoint_step if resumed is None else resumed
    if attempt.last_step is None or resumed is None:
        has_later = any(later.first_step_s is not None for later in job.attempts[index + 1 :])
        is_all_lost = job.ended_s is not None and not has_later
        return (stepping_s, False) if is_all_lost else (0.0, True)
    steps = max(0, attempt.last_step - resumed)
    return min(stepping_s, steps * _step_s(attempt, stepping_s)), False


def _step_s(attempt: AttemptTimes, stepping_s: float) -> float:
    if attempt.step_s is not None:
        return attempt.step_s
    steps = (attempt.last_step or 0) - (attempt.first_step or 0)
    return stepping_s / steps if steps > 0 else stepping_s


def _overlap(intervals: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> float:
    """Return the seconds between begin and end that at least one interval covers."""
    total_s, done_s = 0.0, begin_s
    for low, high in sorted(intervals):
        total_s += max(0.0, min(high, end_s) - max(low, done_s))
        done_s = max(done_s, min(high, end_s))
    return total_s
