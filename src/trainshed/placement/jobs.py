"""Inputs and results of the planner, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainshed.model.explanation import Explanation
from trainshed.model.resources import JobDemand, Seat

#: The default limit of a job's running time (docs/sources/vertex.md 7.1 and 8: seven days).
RUNNING_S_DEFAULT = 604_800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job that waits.  A higher ``priority`` starts first, then a smaller ``order`` (older)."""

    uid: int
    project: str
    name: str
    """``projects/P/jobs/J``, for other jobs' explanations."""
    priority: int
    order: int
    demand: JobDemand
    running_s_max: float = RUNNING_S_DEFAULT
    seatless: bool = False
    """Whether the engine places the job: the server then checks quota and assigns no seats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenEngine:
    """The engine that will run a job."""

    name: str
    places: bool = False
    """Whether the engine places jobs by its own queue."""
    enqueued_max: int | None = None
    """The most attempts in that queue; no limit if None."""
    wants: Mapping[str, str] = field(default_factory=dict)
    """The wishes of its ``Claim``."""
    why: str = ""
    """Why this engine was chosen, a sentence for the job's events; empty without other engines."""
    closed: Explanation | None = None
    """Why the engine accepts no jobs now; None if it accepts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """A job that holds its seats until ``ends_at_s`` at the latest, in seconds on a clock."""

    uid: int
    project: str
    name: str
    demand: JobDemand
    seats: tuple[Seat, ...]
    ends_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRule:
    """At most ``limit`` GPUs of a type in use at once.

    ``*`` as the project or region gives each project or region its own count.
    """

    accelerator: str
    limit: int
    project: str = "*"
    region: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPlan:
    """Which jobs start now, with all their seats, and why each other one waits.

    ``placed`` is in the order in which they were considered: the most urgent first.
    """

    placed: Mapping[int, tuple[Seat, ...]] = field(default_factory=dict)
    waiting: Mapping[int, Explanation] = field(default_factory=dict)
