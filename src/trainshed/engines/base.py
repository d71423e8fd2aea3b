"""The words that all engines share: how a replica ended, how a job ended, where output goes.

An engine gets a ``LaunchPlan`` and answers with an ``Outcome``.  What it cannot do at all it says
with ``EngineFault``; a program that fails is not a fault of the engine but an outcome.
"""

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from trainshed.engines import exit_status
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.reduction_report import ReductionReport
from trainshed.model.resources import Node, Seat
from trainshed.model.roles import Role
from trainshed.model.stopping import StopOrder
from trainshed.model.trials import Report

Stream = Literal["stdout", "stderr"]

SIGNAL_BASE: Final = exit_status.SIGNAL_BASE


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaExit:
    """How one replica ended: by itself with a code, or of a signal; never both."""

    role: Role
    index: int
    task_name: str
    exit_code: int | None
    signal: int | None
    seconds: float
    """How long it ran."""
    stopped_by_us: bool
    """Whether the engine had asked it to end before it did."""
    killed: bool = False
    """Whether it had to be killed because it did not end in its time of grace."""
    notice_s: float | None = None
    """How long after its notice it ended; None where it got none, or nobody knows."""
    oom: bool = False
    """Whether the kernel killed a process of it for want of memory."""
    peak_memory_bytes: int | None = None

    @property
    def status(self) -> int:
        """The exit as one number, as a shell counts: the code, or 128 + the signal."""
        return exit_status.status_of(self.exit_code, self.signal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended.  ``replicas`` are in the order of the plan; ``message`` is one line."""

    exit_code: int
    replicas: tuple[ReplicaExit, ...]
    message: str
    last_words: str = ""
    """What the deciding replica of a failed job wrote last; ``message`` ends with it."""
    interrupted: bool = False
    """Whether it ended because it was ordered to, and not of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """A replica without any sign of progress: no heartbeat, no line, no CPU time."""

    task_name: str
    seconds: float
    """Since its last sign."""
    stacks: str = ""
    """What its threads were doing, one frame a line; empty where nobody could look."""


class OutputSink(Protocol):
    """Where an engine sends what replicas write and what it has to say itself."""

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Take one line of a replica, without its newline."""

    def note(self, text: str) -> None:
        """Take one line of the engine itself."""


class AttemptKey(NamedTuple):
    """One launch of all replicas of a job: names derive from it, so effects are safe to repeat."""

    uid: int
    attempt: int

    def __str__(self) -> str:
        """``1234567890/2``, as messages and folders have it."""
        return f"{self.uid}/{self.attempt}"


class Phase(enum.Enum):
    """How far an attempt has come, as an engine can prove it."""

    STARTING = "STARTING"
    """Asked for; packages are installed, replicas are started."""
    READY = "READY"
    """Every replica has been started."""
    ENDED = "ENDED"
    """There is an outcome, no process of the attempt lives, and its log is complete."""
    LOST = "LOST"
    """Proven gone without an outcome (DESIGN 5.6); no process of it lives."""
    UNKNOWN = "UNKNOWN"
    """The engine cannot say now; never a reason to do anything (DESIGN 5.6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an engine knows of one attempt.  ``outcome`` is there iff the phase is ENDED."""

    key: AttemptKey
    phase: Phase
    outcome: Outcome | None = None
    fault: str | None = None
    """Why it could not be started at all, for people; with phase ENDED or LOST."""
    task_names: tuple[str, ...] = ()
    """Replicas that have been started."""
    hung: tuple[Hang, ...] = ()
    """Replicas that hang now."""
    ran_s: float | None = None
    """How long its replicas ran at the most, where no exit of theirs says it: ENDED or LOST."""
    reduction: ReductionReport | None = None
    """What its workers say of their exchanges through reducers, if they do: ENDED or LOST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the program of a trial has reported, behind a mark, in the order in which it came.

    ``mark`` is what to ask behind the next time.  Once the attempt's phase is ENDED or LOST nothing
    is added any more.
    """

    mark: int
    reports: tuple[Report, ...] = ()
    found: str = ""
    """For people: where reports were looked for and what was there instead of them, such as
    ``/x/output.metrics was never written; event files in /y have the tags loss, lr``."""


class Engine(Protocol):
    """What the controller asks of an engine.  Every call is safe to repeat and thread-safe."""

    name: str

    def nodes(self) -> Sequence[Node]:
        """The fleet as it is now."""

    def launch(self, key: AttemptKey, plan: LaunchPlan, seats: Sequence[Seat]) -> None:
        """Start an attempt and return at once.  Raises EngineFault when that is impossible."""

    def stop(self, key: AttemptKey, order: StopOrder) -> None:
        """End an attempt and return at once; one that never started will not start any more.

        Its replicas are given notice first.  May be repeated; an order never gets milder.
        """

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """What is known of these attempts; reading only, cheap, and never blocking for long."""

    def measured(self, key: AttemptKey, after: int) -> Measured:
        """What the trial of an attempt has reported behind a mark; 0 is the beginning.

        Reading only.  Of an attempt that is not known there is nothing, and the mark stays.
        Raises OSError when that cannot be read now.
        """
