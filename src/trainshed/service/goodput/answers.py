"""Responses of the native API about the goodput of a job.

A ratio that is unknown is None, and ``at_most`` is then its upper bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainshed.model.status import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptGoodput:
    """How an attempt used the time in which it held its machines."""

    attempt: int
    placed: float
    """When it got its machines, in seconds since 1970."""
    ended: float | None
    """None: it goes on."""
    first_step: int | None
    """The number of the first step that it reported; None: unknown."""
    last_step: int | None
    seconds: Mapping[str, float]
    goodput: float | None
    at_most: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialGoodput:
    """How a trial used the time in which it held its machines."""

    trial: int
    """The number of the trial."""
    held: float
    """The seconds for which it held its machines."""
    goodput: float | None
    at_most: float | None
    cost: Mapping[str, Any] | None
    """As that of the study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGoodput:
    """How a job used the time in which it held its machines; of a study, the sum of its trials."""

    job: str
    state: JobState
    goodput: float | None
    """Productive over held time; of a study by GPU-seconds, or vCPU-seconds without GPUs."""
    at_most: float | None
    """The upper bound of an unknown goodput."""
    scheduling: float | None
    """Held over wall time."""
    ettr: float | None
    """Productive over wall time (effective training time ratio)."""
    program: float | None
    """The predicted over the measured time of a step; None without a prediction."""
    seconds: Mapping[str, float]
    """The wall time, the waits, the held time, and the uses of the held time."""
    attempts: Sequence[AttemptGoodput]
    """Empty for a study."""
    trials: Sequence[TrialGoodput]
    """The newest trials of a study, at most 1,000; empty for other jobs."""
    gpu_seconds: Mapping[str, float]
    """As ``seconds``, each attempt multiplied with its GPUs."""
    energy_j: float | None
    """The energy of its GPUs in joules; None: not measured."""
    cost: Mapping[str, Any] | None
    """The cost of its machines for the held time; its ``amount`` is None if no price is known."""
    message: str
    """The goodput and the cost in one sentence."""
