"""Responses of the native API with the figures of jobs over time.

A number that was not measured is None or absent, never 0.  A series has at most 2,000 points; a
point stands for all values since the point before it, with their minimum, mean and maximum.

Points are in lists: pydantic writes other sequences seven times slower.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

#: The most names of one call: more would not fit into an address.
NAMES_MAX: Final = 20

ScalarPoint = tuple[int | None, float, float, float, float]
"""(step or None, seconds since 1970, minimum, mean, maximum)."""


class ScalarSource(Enum):
    """Where the values of a curve come from."""

    PROGRESS = "progress"
    """Values that the program gave to ``trainshed_trainer.progress``."""
    EVENT_FILES = "event files"
    """Files that the program wrote for TensorBoard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpan:
    """The time in which an attempt of a job had its nodes, in seconds since 1970."""

    attempt: int
    start: float
    end: float | None
    """None while the attempt is not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCurve:
    """One figure of a replica or of a GPU over the time of an attempt."""

    name: str
    unit: str
    attempt: int
    task: str | None
    """The task of the replica; None for a GPU."""
    gpu: str | None
    """The UUID of the GPU; None for a replica."""
    points: list[tuple[float, float, float, float]]
    """(seconds since 1970 at the end, minimum, mean, maximum) each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """What the replicas and GPUs of a job used."""

    attempts: Sequence[AttemptSpan]
    series: list[UsageCurve]
    missing: Sequence[str]
    """Sentences on what was not measured, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarCurve:
    """The values of one name over the steps of an attempt."""

    name: str
    source: ScalarSource
    run: str
    """The folder of the event files below the job's log directory, or the task that reported."""
    attempt: int
    points: list[ScalarPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScalars:
    """The values that the program of a job wrote."""

    series: list[ScalarCurve]
    left_out: Sequence[str]
    """Sentences on values that are not in ``series``, and why."""
    complete: bool
    """False while event files are being read: the next call returns more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRow:
    """How far a running job is."""

    project: str
    job: str
    attempt: int
    step: int | None
    total: int | None
    """The step at which the program said that it will end."""
    step_s: float | None
    """The newest mean time of a step, in seconds."""
    predicted_step_s: float | None
    """The step time that was predicted when the job was submitted, in seconds."""
    gpu_use: float | None
    """The mean use of its GPUs in the newest sample, from 0 to 1."""
    cost: Mapping[str, Any] | None
    """What the job has cost so far; None if no price is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The progress of the jobs that run."""

    rows: Sequence[ProgressRow]
