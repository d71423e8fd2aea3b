"""Translates Slurm's states of a job, and its reasons why a job waits."""

import enum
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from trainshed.engines.slurm.parse import Cancellation, SlurmJob
from trainshed.model.attempt import AttemptKey
from trainshed.model.explanation import Explanation, Reason


class SlurmState(enum.Enum):
    """The state of a job in Slurm."""

    PENDING = "PENDING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    ENDING = "ENDING"
    REQUEUED = "REQUEUED"
    """The job was requeued in Slurm; an attempt must not start twice."""
    DONE = "DONE"
    """The batch script of the job has ended by itself."""
    STOPPED = "STOPPED"
    """A user or an administrator has cancelled the job."""
    LIMIT = "LIMIT"
    """The job has reached a time limit."""
    PREEMPTED = "PREEMPTED"
    NODE_LOST = "NODE_LOST"
    UNKNOWN = "UNKNOWN"


OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
STATES: Final[Mapping[str, SlurmState]] = {
    "PENDING": SlurmState.PENDING,
    "CONFIGURING": SlurmState.STARTING,
    "POWER_UP_NODE": SlurmState.STARTING,
    "RUNNING": SlurmState.RUNNING,
    "RESIZING": SlurmState.RUNNING,
    "SUSPENDED": SlurmState.SUSPENDED,
    "STOPPED": SlurmState.SUSPENDED,
    "COMPLETING": SlurmState.ENDING,
    "STAGE_OUT": SlurmState.ENDING,
    "SIGNALING": SlurmState.ENDING,
    "REQUEUED": SlurmState.REQUEUED,
    "REQUEUE_FED": SlurmState.REQUEUED,
    "REQUEUE_HOLD": SlurmState.REQUEUED,
    "SPECIAL_EXIT": SlurmState.REQUEUED,
    "COMPLETED": SlurmState.DONE,
    "FAILED": SlurmState.DONE,
    OUT_OF_MEMORY: SlurmState.DONE,
    "CANCELLED": SlurmState.STOPPED,
    "TIMEOUT": SlurmState.LIMIT,
    "DEADLINE": SlurmState.LIMIT,
    "PREEMPTED": SlurmState.PREEMPTED,
    "NODE_FAIL": SlurmState.NODE_LOST,
    "BOOT_FAIL": SlurmState.NODE_LOST,
    "LAUNCH_FAILED": SlurmState.NODE_LOST,
    "REVOKED": SlurmState.NODE_LOST,
}

#: States in which no process of the job runs, as Slurm reports.
OVER: Final = frozenset(
    {
        SlurmState.DONE,
        SlurmState.STOPPED,
        SlurmState.LIMIT,
        SlurmState.PREEMPTED,
        SlurmState.NODE_LOST,
    }
)
#: The most nodes that a sentence names.
_NAMED_MAX: Final = 8
#: States that change soon.
MOVING: Final = frozenset({SlurmState.STARTING, SlurmState.ENDING, SlurmState.REQUEUED})

#: A job with several components has the first state of this list that one of them has.
_ORDER: Final = (
    SlurmState.UNKNOWN,
    SlurmState.REQUEUED,
    SlurmState.SUSPENDED,
    SlurmState.ENDING,
    SlurmState.RUNNING,
    SlurmState.STARTING,
    SlurmState.PENDING,
    SlurmState.NODE_LOST,
    SlurmState.PREEMPTED,
    SlurmState.LIMIT,
    SlurmState.STOPPED,
    SlurmState.DONE,
)


def state_of(rows: Sequence[SlurmJob]) -> SlurmState:
    """Return the state of a whole job, which is over when all its components are over."""
    states = {STATES.get(row.state.partition(" ")[0], SlurmState.UNKNOWN) for row in rows}
    return next((state for state in _ORDER if state in states), SlurmState.UNKNOWN)


class AnswerChange(NamedTuple):
    """The difference between two answers of Slurm."""

    has_news: bool
    """Whether the state of an attempt may have changed."""
    is_moving: bool
    """Whether jobs begin, move or end, so that other changes may follow soon."""


def compare_answers(
    before: Mapping[str, Sequence[SlurmJob]], after: Mapping[str, Sequence[SlurmJob]]
) -> AnswerChange:
    """Compare the rows of two answers by job, without the expected starts.

    An ended job that Slurm forgets is no news.  Another reason of a job that waits is news, but no
    reason to poll more often: reasons of a long queue change all the time.
    """
    if before == after:
        return AnswerChange(has_news=False, is_moving=False)
    changed = [
        (before.get(job, ()), after.get(job, ()))
        for job in before.keys() | after.keys()
        if before.get(job) != after.get(job)
    ]
    news = [(old, new) for old, new in changed if new or state_of(old) not in OVER]
    is_moving = any(_without_reasons(old) != _without_reasons(new) for old, new in news)
    return AnswerChange(has_news=bool(news), is_moving=is_moving)


def _without_reasons(rows: Sequence[SlurmJob]) -> list[tuple[str, tuple[str, ...]]]:
    return [(row.state, row.nodes) for row in rows]


def reason_of(rows: Sequence[SlurmJob]) -> str:
    """Return why a job waits; a component that only waits for another component counts last."""
    words = [row.reason for row in rows if row.reason]
    specific = [word for word in words if word not in {"Dependency", "Priority"}]
    return next(iter([*specific, *words]), "")


def explain_waiting(rows: Sequence[SlurmJob]) -> Explanation:
    """Explain why a job is pending."""
    word = reason_of(rows)
    reason, sentence = _explain_reason(word)
    statement = f"Slurm says {word}" if word else "Slurm gives no reason yet"
    start_s = next((row.start_s for row in rows if row.start_s), None)
    expected = (
        "" if start_s is None else f"; Slurm expects to start the job at {_format_time(start_s)}"
    )
    if word.startswith("JobHeld"):
        sentence += f"; `scontrol release {rows[0].id}` releases it"
    message = f"{sentence} (Slurm job {rows[0].id}: {statement}{expected})"
    return Explanation(reason=reason, message=message)


def explain_suspended(rows: Sequence[SlurmJob]) -> Explanation:
    """Explain a job that was suspended in Slurm."""
    text = f"the Slurm job {rows[0].id} is suspended; `scontrol resume {rows[0].id}` resumes it"
    return Explanation(reason=Reason.HELD, message=text)


def explain_starting(rows: Sequence[SlurmJob]) -> Explanation:
    """Explain a job whose nodes Slurm prepares; a cloud node that is off boots first."""
    names = [name for row in rows for name in row.nodes]
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    nodes = f"{', '.join(names[:_NAMED_MAX])}{more}" if names else "its nodes"
    state = rows[0].state
    text = f"Slurm boots or prepares {nodes} for the job (Slurm job {rows[0].id} is {state})"
    return Explanation(reason=Reason.NOT_STARTING, message=text, blockers=tuple(names[:10]))


def explain_unreachable(key: AttemptKey, nodes: Collection[str]) -> Explanation:
    """Explain an attempt on nodes that Slurm cannot reach, and how to fence it."""
    names = sorted(nodes)
    text = (
        f"Slurm cannot reach {', '.join(names)}, so the state of the attempt is unknown; an "
        "administrator who has checked that no process of the attempt runs on these nodes may run "
        f"`trainshed attempts fence {key}`"
    )
    return Explanation(reason=Reason.ENGINE_AWAY, message=text, blockers=tuple(names[:10]))


def explain_cancelled(job: str, cancellation: Cancellation) -> str:
    """Return who has cancelled a job, and when, as a sentence without its full stop."""
    at_s = cancellation.at_s
    when = "" if at_s is None else f" at {_format_time(at_s)}"
    return f"{_name_user(cancellation.uid)} cancelled the Slurm job {job} (scancel){when}"


def explain_accounts(job: str) -> Explanation:
    """Explain why the server cannot say yet how a job ended that Slurm has forgotten."""
    message = (
        f"Slurm no longer knows the job {job}, and its accounting does not answer yet whether a "
        f"person has cancelled it; `sacct -j {job}` shows the reason"
    )
    return Explanation(reason=Reason.ENGINE_AWAY, message=message)


def _name_user(uid: int | None) -> str:
    """Return the name of a user of the cluster, as this machine knows it."""
    import pwd  # noqa: PLC0415 - only for messages

    if uid is None:
        return "someone other than this server"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"


def explain_never(rows: Sequence[SlurmJob]) -> str | None:
    """Return why a pending job can never start; None: it may start."""
    word = reason_of(rows)
    is_temporary = word == "PartitionNodeLimit"  # also reported while nodes are down
    return f"{_NEVER[word]} (Slurm says {word})" if word in _NEVER and not is_temporary else None


_QUEUE = (Reason.ENGINE_QUEUE, "other jobs are before the job in the cluster's queue")
_NEW = (Reason.ENGINE_QUEUE, "the job has arrived in the cluster's queue")
_CLOSED = (Reason.DRAINED, "the nodes that could hold the job take no jobs")
_QUOTA = (Reason.QUOTA, "a limit of the cluster's accounting is reached")
_TOO_LONG: Final = (
    "the job asks for more time than the cluster's accounting permits for a job: set "
    "scheduling.timeout, or `time_max_s` of the engine for jobs without one"
)
_LONG = (Reason.QUOTA, _TOO_LONG)
_HELD = (Reason.HELD, "the job is held in the cluster's queue")

_MEANINGS: Final[Mapping[str, tuple[Reason, str]]] = {
    "": _NEW,
    "None": _NEW,
    "Priority": _QUEUE,
    "BeginTime": (Reason.ENGINE_QUEUE, "the job has a begin time, before which it may not start"),
    "Dependency": (
        Reason.ENGINE_QUEUE,
        "another job, such as that of the previous attempt, must end first",
    ),
    "Resources": (Reason.CAPACITY, "the nodes that could hold the job are in use"),
    "Licenses": (Reason.CAPACITY, "a license that the job needs is in use"),
    "Reservation": (Reason.ENGINE_QUEUE, "the reservation of the job has not begun"),
    "ReqNodeNotAvail": _CLOSED,
    "PartitionDown": (Reason.DRAINED, "the partition of the job is down"),
    "PartitionInactive": (Reason.DRAINED, "the partition of the job is inactive"),
    "NodeDown": _CLOSED,
    "JobHeldUser": _HELD,
    "JobHeldAdmin": _HELD,
    "JobHoldMaxRequeue": _HELD,
    "ReservationDeleted": (Reason.HELD, "the reservation of the job was deleted"),
    "ReservationInvalid": (Reason.HELD, "the reservation of the job is invalid"),
    "JobArrayTaskLimit": _QUEUE,
    "Cleaning": (Reason.ENGINE_QUEUE, "the cluster still cleans up after the job's earlier start"),
    "Prolog": (Reason.ENGINE_QUEUE, "the cluster's prolog of the job still runs"),
    "Constraints": (Reason.CAPACITY, "no node meets the constraints of the job for now"),
    "MaxPoweredUpNodes": (Reason.CAPACITY, "the cluster may not power up more nodes"),
    "MpiPortsBusy": (Reason.CAPACITY, "the ports for MPI are in use"),
    "NvidiaImexChannels": (Reason.CAPACITY, "the channels between the GPUs of nodes are in use"),
    "BurstBufferResources": (Reason.CAPACITY, "the burst buffer has not enough space"),
    "MaxMemPerLimit": (Reason.QUOTA, "the job asks for more memory than the partition allows"),
    "PartitionConfig": (Reason.QUOTA, "the job exceeds a limit of the partition"),
    "AccountingPolicy": _QUOTA,
    "AssocMaxWallDurationPerJobLimit": _LONG,
    "QOSMaxWallDurationPerJobLimit": _LONG,
}

_NEVER: Final[Mapping[str, str]] = {
    "BadConstraints": "no nodes of the cluster can ever hold the job; `sinfo -o '%P %c %m %G %f'` "
    "lists what nodes have: lower the machine, or correct the label trainshed-slurm-constraint",
    "PartitionNodeLimit": "the partition does not allow so many nodes for a job; lower the number "
    "of replicas, or set the label trainshed-slurm-partition",
    "PartitionTimeLimit": "the partition does not allow such a long time for a job; "
    "`sinfo -o '%P %l'` lists the limits: set scheduling.timeout, and submit the job again",
    "AccountNotAllowed": "the account of the job may not use the partition; set the label "
    "trainshed-slurm-account or trainshed-slurm-partition",
    "InvalidAccount": "the cluster does not know the account of the job; set the label "
    "trainshed-slurm-account",
    "QOSNotAllowed": "the qos of the job may not be used with the partition or the account; set "
    "the label trainshed-slurm-qos",
    "InvalidQOS": "the cluster does not know the qos of the job; set the label trainshed-slurm-qos",
}

#: Other words for limits, such as MaxGRESPerAccount and MaxCpuRunMinsPerUser.
_LIMIT: Final = re.compile("Limit$|^Max.*Per(Account|User)$")


def _explain_reason(word: str) -> tuple[Reason, str]:
    plain = word.partition(",")[0].strip()
    if plain in _MEANINGS:
        return _MEANINGS[plain]
    if plain in _NEVER:
        return Reason.NO_SUCH_NODE, _NEVER[plain]
    if plain.startswith("Nodes required for job are"):
        return _CLOSED
    if plain.startswith(("QOS", "Assoc")) or _LIMIT.search(plain):
        return _QUOTA
    return Reason.ENGINE_QUEUE, "the job waits in the cluster's queue"


def _format_time(seconds: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415 - only for messages

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
