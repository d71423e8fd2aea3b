"""One attempt of a job: its phase, its reports, how it ended, and why it was lost.

Engines, controller, store and supervisor share these values.  The supervisor keeps them in memory
for days, so this module imports little: named tuples, where the rest of the model has dataclasses.
"""

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, Optional

from trainshed.model.exit_status import SIGNAL_BASE
from trainshed.model.roles import Role

if TYPE_CHECKING:
    from trainshed.model.explanation import Explanation
    from trainshed.model.reduction_report import ReductionReport
    from trainshed.model.resources import Seat
    from trainshed.model.step_times import StepTimes


class AttemptKey(NamedTuple):
    """One launch of all replicas of a job.  Names derive from it, so effects are safe to repeat."""

    uid: int
    attempt: int

    def __str__(self) -> str:
        """Return the key as in messages and folders: ``1234567890/2``."""
        return f"{self.uid}/{self.attempt}"

    @property
    def earlier(self) -> "tuple[AttemptKey, ...]":
        """The attempts of the job before this one."""
        return tuple(AttemptKey(self.uid, number) for number in range(1, self.attempt))


class Phase(enum.Enum):
    """The phase of an attempt, as far as an engine can prove it."""

    WAITING = "WAITING"
    """The attempt is in the engine's own queue; no replica has a node."""
    STARTING = "STARTING"
    """Launched; the engine installs packages and starts replicas."""
    READY = "READY"
    """Every replica has been started."""
    ENDED = "ENDED"
    """There is an outcome, no process of the attempt runs, and its log is complete."""
    LOST = "LOST"
    """The engine has proof that no process of the attempt runs; there is no outcome."""
    UNKNOWN = "UNKNOWN"
    """The engine cannot determine the phase now; the controller must not act on this value."""

    # used thousands of times a second; an enum's own hash is slow
    __hash__ = object.__hash__


#: Phases in which replicas may run.
ALIVE: Final = frozenset({Phase.STARTING, Phase.READY})


class Loss(enum.Enum):
    """Why an attempt was lost; it decides which restart budget is used."""

    MAINTENANCE = "MAINTENANCE"
    """Preempted, evicted or drained."""
    INFRA = "INFRA"
    """The node or the supervisor of the attempt is gone."""
    OPERATOR = "OPERATOR"
    """A person has ended it in the cluster: the job is held until a user resumes it."""
    LIMIT = "LIMIT"
    """The time limit of a cluster's own queue: the job does not start again."""


class ReplicaExit(NamedTuple):
    """The end of one replica: either an exit code or a signal."""

    role: Role
    index: int  # type: ignore[assignment] # tuples have a method of that name
    task_name: str
    exit_code: Optional[int]
    signal: Optional[int]
    seconds: float
    """The running time of the replica, in seconds."""
    stopped_by_us: bool
    """Whether the engine ordered the replica to end before it ended."""
    killed: bool = False
    """Whether the engine killed the replica because it did not end within the grace period."""
    notice_s: Optional[float] = None
    """Seconds from the notice of the replica to its end; None without a notice, or if unknown."""
    oom: bool = False
    """Whether the kernel killed a process of the replica because memory ran out."""
    peak_memory_bytes: Optional[int] = None

    @property
    def status(self) -> int:
        """The exit as one number, as a shell counts: the code, or 128 + the signal."""
        return self.exit_code or 0 if self.signal is None else SIGNAL_BASE + self.signal


class Outcome(NamedTuple):
    """The result of an attempt that has ended."""

    exit_code: int
    message: str
    """A message for users, in one line."""
    replicas: tuple[ReplicaExit, ...] = ()
    """The exits of the replicas, in the order of the plan."""
    last_words: str = ""
    """The last output of the replica that made the job fail; ``message`` ends with it."""
    interrupted: bool = False
    """Whether the attempt ended because of a stop order, and not by itself."""


class Hang(NamedTuple):
    """A replica without any sign of progress: no heartbeat, no line, no CPU time."""

    task_name: str
    seconds: float
    """The seconds since its last sign of progress."""
    stacks: str = ""
    """The stacks of its threads, one frame a line; empty if they could not be read."""


class Observation(NamedTuple):
    """The state of one attempt by its engine.  ``outcome`` is set only in phase ENDED."""

    key: AttemptKey
    phase: Phase
    outcome: Outcome | None = None
    fault: str | None = None
    """Why the engine could not start the attempt, as a sentence for users; in phase ENDED or
    LOST."""
    task_names: tuple[str, ...] = ()
    """Replicas that have been started."""
    hung: tuple[Hang, ...] = ()
    """Replicas that show no progress now."""
    ran_s: float | None = None
    """The longest running time of a replica, in seconds, if ``outcome`` does not have it.  Set in
    phase ENDED or LOST."""
    reduction: "ReductionReport | None" = None
    """The workers' report on their exchanges through reducers, if any; in phase ENDED or LOST."""
    steps: "StepTimes | None" = None
    """The step times that the primary reported, if any; in phase ENDED or LOST."""
    loss: Loss | None = None
    """Why the attempt was lost; in phase LOST, None means INFRA."""
    waits: "Explanation | None" = None
    """Why the attempt waits at its engine; in phase WAITING or STARTING, or READY and suspended."""
    placed: "tuple[Seat, ...]" = ()
    """The nodes of its replicas, if the engine chose them."""
    placed_how: str = ""
    """A remark on the nodes of its replicas, as the end of a sentence."""
    since_s: float | None = None
    """The time of the observation, in seconds since 1970; None: now."""
    ended_s: float | None = None
    """When the attempt ended, in seconds since 1970 by its own clock; None: unknown, or just now.
    It may have ended long ago, while no server ran.  Set in phase ENDED or LOST."""


class MetricsPlan(NamedTuple):
    """The files in which a trial's program reports its metrics, and the names of the metrics.

    ``files`` are metric files of cloudml-hypertune (docs/sources/vertex.md 10.1); ``summaries``
    are folders in which TensorFlow writes event files (AI Platform's older way).
    """

    files: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()


class Report(NamedTuple):
    """One value of one metric, as a program has reported it; NaN and infinity are possible."""

    tag: str
    value: float
    step: int = 0
    elapsed_s: float = 0.0
    """The seconds since the trial's program began to run."""


class Measured(NamedTuple):
    """Reports of a trial's program, in the order of arrival.

    ``mark`` is the position after the last report: the next request passes it and gets only newer
    reports.  Once the attempt's phase is ENDED or LOST, no report is added.
    """

    mark: int
    reports: tuple[Report, ...] = ()
    found: str = ""
    """For users: the files that the engine read for reports, and their contents, such as
    ``/x/output.metrics was never written; event files in /y have the tags loss, lr``."""
