"""The events of a job, and the commands that follow from them."""

import enum
from dataclasses import dataclass
from typing import get_args


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """All replicas of the next attempt have a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """The next attempt enters the queue of an engine that places jobs itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverRefused:
    """The engine refused the attempt and started nothing: the job continues to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The engine's own queue has given the attempt its places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReady:
    """Every replica of the attempt is running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimarySucceeded:
    """The primary ended with exit code 0; it decides the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartGranted:
    """A policy allows another attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A person has ended the attempt in its cluster, or its study has paused the trial.

    The job waits until a user, or the study, resumes it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartOrdered:
    """The attempt must end, with notice, so that the next one can begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp:
    """A policy says that the job has failed."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """A user or a time limit ends the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """No process of the attempt lives any more."""


Event = (
    Placed
    | HandedOver
    | HandOverRefused
    | Admitted
    | AllReady
    | PrimarySucceeded
    | RestartGranted
    | Held
    | RestartOrdered
    | GaveUp
    | CancelRequested
    | Drained
)

EVENTS: tuple[type[Event], ...] = get_args(Event)


class Command(enum.Enum):
    """A command for the engine.  Every command is safe to repeat."""

    LAUNCH = "LAUNCH"
    STOP = "STOP"
    """End every process of the attempt, then release its place."""
