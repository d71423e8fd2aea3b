"""One write about a job, as a value, and its rows: events, commands and replicas."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trainshed.lifecycle.events import Command
from trainshed.model.explanation import Explanation
from trainshed.model.resources import Claim, Seat
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobError, JobState
from trainshed.model.stopping import StopOrder

#: The kind of the event by which an administrator fences an attempt.
FENCED: Final = "FENCED"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """One sentence of a job's story.  ``kind`` is an upper-case word that scripts may match."""

    kind: str
    message: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """A sentence of a job's story; ``seq`` ascends in the store, ``stamp_ns`` within the job."""

    seq: int
    uid: int
    attempt: int
    stamp_ns: int
    kind: str
    message: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommand:
    """A command that has not been confirmed yet, in the order in which it was given."""

    seq: int
    uid: int
    attempt: int
    kind: Command
    stop: StopOrder | None = None
    """With a STOP: how; the server's own way if None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """The state of one replica of an attempt, as last observed."""

    role: str
    index: int
    task_name: str
    node: str
    """Empty: its engine has not reported it."""
    state: str
    """PLACED, RUNNING, SUCCEEDED, FAILED or STOPPED."""
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write about one job: its new state with events and commands, or nothing.

    Applied only if the row still has ``version``.  Entering PREPARING with ``seats``, or ENQUEUED,
    opens the next attempt (number ``attempt + 1``); a final state sets ``end_time`` in the same
    write.  ``replicas`` replace the stored rows of the current attempt.
    """

    uid: int
    version: int
    state: JobState
    error: JobError | None = None
    events: tuple[NewEvent, ...] = ()
    commands: tuple[Command, ...] = ()
    seats: tuple[Seat, ...] = ()
    claim: Claim | None = None
    """The claim of an attempt whose nodes the engine chooses; such an attempt has no seats."""
    engine: str = ""
    """The engine of a new attempt; empty: the first engine."""
    placed: tuple[Seat, ...] = ()
    """The seats that the engine reported for the attempt; empty: the stored seats stay."""
    refused: Explanation | None = None
    """Why the engine did not accept the attempt; the job waits until it does."""
    replicas: tuple[ReplicaRow, ...] | None = None
    owner: str | None = None
    """The server that reconciles the job from now on; None leaves it."""
    server: str | None = None
    """Applied only while this server's lease is valid; None for callers of the API."""
    stop: StopOrder | None = None
    """The stop order of the STOP among the commands."""
    restarts: Restarts | None = None
    """The counts from now on; None leaves them."""
    ran_s_max: float | None = None
    """The most seconds that the attempt that leaves RUNNING has run: the server may observe an end
    late.  None: until now."""
