"""Decides the state of one attempt: pure functions from facts to a decision.

``SlurmFacts`` holds the facts of one observation, from the attempt's folder and from Slurm's last
answer.  Some proofs need several observations, such as that Slurm no longer knows a job: ``Memory``
holds the results of earlier observations, and ``follow`` updates this memory after each
observation.  ``decide_state`` decides from the facts and the memory.  ``attempt.SlurmAttempt``
reads the facts and performs the decision.

The records show how the programs ended, and Slurm shows why: SIGTERM may come from a preemption,
a cancellation by another user, or a time limit.  So an end by a signal that this server did not
order is believed only when Slurm has reported how the job ended.
"""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.decisions import (
    STANDS,
    GiveUp,
    Over,
    Recorded,
    Runs,
    TakeClaim,
    Unknown,
    Waits,
    end_early,
)
from trainshed.engines.slurm import states
from trainshed.engines.slurm.parse import Cancellation, SlurmJob
from trainshed.engines.slurm.states import OVER, SlurmState
from trainshed.engines.supervise.record.folder import TIME_IS_OVER, Order
from trainshed.engines.warden.protocol import ENDS_PROCESSES
from trainshed.model.attempt import AttemptKey, Loss, Outcome
from trainshed.model.exit_status import SIGNAL_BASE
from trainshed.model.explanation import Explanation, Reason

#: The number of answers in a row without a job after which Slurm no longer knows the job.
MISSES: Final = 2
#: The text of ``ENDS_PROCESSES`` in launchers of an earlier version.
_ENDS_PROCESSES_EARLIER: Final = "is to be left"
QUEUED: Final = frozenset({SlurmState.PENDING, SlurmState.REQUEUED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmFacts:
    """The facts about an attempt from one observation."""

    key: AttemptKey
    now_s: float = 0.0
    """The time of the observation, in seconds of the monotonic clock."""
    lost_after_s: float = 0.0
    """Seconds to wait for the records of a job that is over or unknown to Slurm."""

    end: EndByCluster | None = None
    """The end that an earlier observation has stored; if set, no other fact counts."""
    is_submitted: bool = True
    job: str = ""
    """Slurm's number; empty until Slurm has given one."""
    spool: str = ""
    """The path of the shared folder on the nodes."""
    is_new: bool = False
    """Whether Slurm may not list the job yet, because the job was submitted just now."""
    order: Order | None = None
    claim: bool | None = None
    """Whether the server has the claim, so that no job begins the attempt; None: not tried yet."""
    has_begun: bool = False
    outcome: Outcome | None = None
    """The end in the attempt's records; None: no end is recorded."""
    is_held: bool = False
    """Whether the launcher has recorded, after this end, that it keeps its nodes."""

    number: int = 0
    """Number of Slurm's answers so far."""
    is_away: bool = False
    """Whether Slurm does not answer now."""
    is_up: bool = True
    """False: the controller did not answer a ping when the last answer lacked jobs."""
    rows: Sequence[SlurmJob] = ()
    """Slurm's rows of the attempt's job."""
    cancellation: Cancellation | None = None
    """Who has cancelled the job, and when; None: Slurm has not answered this yet."""
    is_accounting_away: bool = False
    """Whether Slurm's accounting did not answer a query about the job."""
    holds_cancelled: bool = True
    """Whether a job that a person cancels in Slurm is held."""
    silent: frozenset[str] = frozenset()
    """The nodes of the job that Slurm cannot reach."""

    @property
    def state(self) -> SlurmState | None:
        """The state of the job; None: Slurm does not list the job, or does not answer."""
        return states.state_of(self.rows) if self.rows and not self.is_away else None


class Memory(NamedTuple):
    """The results of earlier observations."""

    missed: int = 0
    """The number of answers in a row without the attempt's job."""
    counted_at: int = 0
    """The number of the answer that was counted last."""
    over_since_s: float | None = None
    """The time when Slurm first reported the job as over, or no longer listed the job."""
    held_at: int | None = None
    """Number of the first answer after the launcher recorded that it keeps its nodes."""
    queued_at: int | None = None
    """Number of the first answer with the job in the queue although the attempt had begun."""
    is_requeued: bool = False
    """Whether the job was requeued, and so waits to start again."""


Decision = Unknown | Waits | Runs | Recorded | Over | TakeClaim | GiveUp


def follow(memory: Memory, facts: SlurmFacts) -> Memory:
    """Return the memory after the observation of these facts."""
    state = facts.state
    memory = _count_miss(memory, facts)
    if state in OVER or _is_gone(facts, memory):
        if memory.over_since_s is None:
            memory = memory._replace(over_since_s=facts.now_s)
    elif state is not None:
        memory = memory._replace(over_since_s=None)
    if facts.is_held and state is SlurmState.RUNNING and memory.held_at is None:
        memory = memory._replace(held_at=facts.number)
    return _follow_queue(memory, facts)


def _count_miss(memory: Memory, facts: SlurmFacts) -> Memory:
    """Count the answers in a row that lack the job, while the controller works."""
    is_old = not facts.number or facts.number == memory.counted_at
    if facts.is_away or not facts.is_up or is_old:
        return memory
    if facts.rows:
        return memory._replace(missed=0, counted_at=facts.number)
    is_expected = facts.outcome is not None or (facts.job and not facts.is_new)
    if not facts.is_submitted or not is_expected:
        return memory
    return memory._replace(missed=memory.missed + 1, counted_at=facts.number)


def _follow_queue(memory: Memory, facts: SlurmFacts) -> Memory:
    """Notice a requeued job; one answer may be older than the start of the attempt."""
    state = facts.state
    if state in QUEUED and (facts.has_begun or state is SlurmState.REQUEUED):
        queued_at = facts.number if memory.queued_at is None else memory.queued_at
        # the second answer was queried after the attempt began
        is_requeued = memory.is_requeued or facts.number > queued_at + 1
        return memory._replace(queued_at=queued_at, is_requeued=is_requeued)
    is_past_queue = state is not None and state not in QUEUED and state not in OVER
    return memory._replace(queued_at=None) if is_past_queue else memory


def decide_state(facts: SlurmFacts, memory: Memory) -> Decision:
    """Decide the state of an attempt; ``memory`` is the result of ``follow`` for these facts."""
    if facts.end is not None:
        return Over(facts.end, is_written=True)
    if not facts.is_submitted:
        return Unknown() if facts.order is None else Over(end_early(facts.order), is_written=True)
    if facts.order is not None and not facts.has_begun and facts.claim is not False:
        return TakeClaim() if facts.claim is None else Over(end_early(facts.order))
    if facts.outcome is not None:
        return _judge_recorded_end(facts, memory, facts.outcome)
    return _judge_without_end(facts, memory)


def _judge_recorded_end(facts: SlurmFacts, memory: Memory, outcome: Outcome) -> Decision:
    """Decide whether the end in the records counts, or whether Slurm must report its cause."""
    if facts.order is not None or not _is_doubtful(outcome):
        return Recorded()
    state = facts.state
    if state is SlurmState.DONE or _is_time_over(outcome):
        return Over(_interrupted(outcome, facts) if outcome.interrupted else STANDS)
    if state is None:
        is_gone = _is_gone(facts, memory)
        return (_judge_by_accounts(facts, memory) or Over(STANDS)) if is_gone else Runs()
    if state is SlurmState.RUNNING and _is_kept(facts, memory):
        return Over(STANDS)
    if state in QUEUED:
        return _judge_queued(facts, memory)
    return _end_by_slurm(facts, memory) if state in OVER else Runs()


def _judge_without_end(facts: SlurmFacts, memory: Memory) -> Decision:
    """Decide the state of an attempt without an end in its records."""
    state = facts.state
    if facts.is_away:
        return Unknown()
    if state is None:
        return _judge_missing(facts, memory)
    if state in OVER:
        return _judge_over(facts, memory)
    if state in QUEUED:
        return _judge_queued(facts, memory)
    return _judge_started(facts)


def _judge_started(facts: SlurmFacts) -> Decision:
    """Decide for a job that has nodes; Slurm may not reach some of these nodes."""
    if facts.silent:
        return Unknown(states.explain_unreachable(facts.key, facts.silent))
    if facts.state is SlurmState.UNKNOWN:
        return Unknown()
    explain = _EXPLAIN_STARTED.get(facts.state) if facts.state else None
    return Runs(explain(facts.rows) if explain else None)


#: Why a job that has nodes does not run.
_EXPLAIN_STARTED: Final[Mapping[SlurmState, Callable[[Sequence[SlurmJob]], Explanation]]] = {
    SlurmState.STARTING: states.explain_starting,
    SlurmState.SUSPENDED: states.explain_suspended,
}


def _judge_missing(facts: SlurmFacts, memory: Memory) -> Decision:
    """Decide for a job that Slurm does not list; one answer without the job proves nothing."""
    if not facts.job:
        return Unknown()
    if not facts.number or (facts.is_new and not facts.has_begun):
        text = f"Slurm has accepted the attempt as job {facts.job}, but does not list the job yet"
        return Waits(Explanation(reason=Reason.ENGINE_QUEUE, message=text))
    if facts.is_new:
        return Runs()
    if not _is_gone(facts, memory):
        return Unknown()
    if (decision := _judge_by_accounts(facts, memory)) is not None:
        return decision
    return GiveUp(_explain_forgotten(facts)) if _has_waited(facts, memory) else Unknown()


def _explain_forgotten(facts: SlurmFacts) -> str:
    """Explain why an attempt is lost that a person may have cancelled while no server ran."""
    is_answered = facts.cancellation is None or facts.cancellation.is_answered
    accounting = "reports no cancellation" if is_answered else "does not answer"
    return (
        f"Slurm no longer knows the job of the attempt, its accounting (sacct) {accounting}, and "
        "no end is recorded"
    )


def _judge_by_accounts(facts: SlurmFacts, memory: Memory) -> Decision | None:
    """Decide for a job that Slurm has forgotten; None: its accounting reports no cancellation."""
    if facts.order is not None or memory.is_requeued:
        return None
    if facts.cancellation is None:
        waits = states.explain_accounts(facts.job) if facts.is_accounting_away else None
        return Unknown(waits)
    is_cancelled = facts.cancellation.at_s is not None
    return Over(_end_by(facts, memory), takes_claim=True) if is_cancelled else None


def _judge_over(facts: SlurmFacts, memory: Memory) -> Decision:
    """Decide for a job that Slurm reports as over, without an end in the records."""
    is_by_us = facts.state is SlurmState.STOPPED and facts.order is not None
    is_launch_failure = _may_be_launch_failure(facts, memory)
    if facts.state is not SlurmState.DONE and not is_by_us and not is_launch_failure:
        return _end_by_slurm(facts, memory)
    if not facts.has_begun and facts.claim is not False:
        # the script takes the claim first, so a job that ended without it began nothing
        return TakeClaim() if facts.claim is None else Over(_explain_never_began(facts))
    if is_launch_failure:  # a job began meanwhile
        return _end_by_slurm(facts, memory)
    return _give_up_launcher(facts) if _has_waited(facts, memory) else Runs()


def _give_up_launcher(facts: SlurmFacts) -> GiveUp:
    """Give up an attempt whose launcher was killed; the memory of a job is the program's own."""
    why = "the launcher of the attempt was killed"
    if states.OUT_OF_MEMORY not in {row.state for row in facts.rows}:
        return GiveUp(why)
    return GiveUp(why, _end_without_memory(why, states.OUT_OF_MEMORY))


def end_by_last_words(why: str, last_words: str) -> EndByCluster | None:
    """Return the end of a job that Slurm has killed for its memory; None: it has another cause.

    With ``OverMemoryKill`` Slurm kills the batch step, and says so only in its output.
    """
    is_over = last_words.endswith(_OVER_MEMORY)
    return _end_without_memory(why, _OVER_MEMORY) if is_over else None


#: What slurmstepd writes to the output of a step that it kills.
_OVER_MEMORY: Final = "Exceeded job memory limit"


def _end_without_memory(why: str, words: str) -> EndByCluster:
    fault = f"{why} with its program: out of memory (Slurm says {words})"
    return EndByCluster(fault, exit_code=SIGNAL_BASE + signal.SIGKILL)


def _judge_queued(facts: SlurmFacts, memory: Memory) -> Decision:
    """Decide for a job in the queue; the answer may be older than the start of the job."""
    if facts.has_begun or facts.state is not SlurmState.PENDING:
        return Unknown() if memory.is_requeued else Runs()
    why = states.explain_never(facts.rows)
    if why is None or facts.claim is False:
        return Waits(states.explain_waiting(facts.rows))
    return TakeClaim() if facts.claim is None else Over(EndByCluster(fault=why, never=True))


def _is_gone(facts: SlurmFacts, memory: Memory) -> bool:
    """Return whether Slurm no longer knows the job: enough answers in a row lack the job."""
    is_valid = not facts.is_away and facts.is_up and facts.number > 0
    return is_valid and not facts.rows and memory.missed >= MISSES


def _has_waited(facts: SlurmFacts, memory: Memory) -> bool:
    """Return whether late records of an ended job would have arrived by now."""
    since_s = memory.over_since_s
    return since_s is not None and facts.now_s - since_s >= facts.lost_after_s


def _is_kept(facts: SlurmFacts, memory: Memory) -> bool:
    """Return whether the job still runs after the end, so that no other user has ended it."""
    if not facts.is_held or memory.held_at is None:
        return False
    return facts.number > memory.held_at + 1  # the first query may have begun before the end


def _end_by_slurm(facts: SlurmFacts, memory: Memory) -> Decision:
    """Decide for a job that Slurm or a person has ended, after Slurm has said who that was."""
    if _is_cancelled(facts, memory) and facts.cancellation is None:
        return Unknown()
    return Over(_end_by(facts, memory), takes_claim=True)


def _is_cancelled(facts: SlurmFacts, memory: Memory) -> bool:
    """Return whether another person, or Slurm, has cancelled the job."""
    is_ours = facts.order is not None or memory.is_requeued
    return facts.state is SlurmState.STOPPED and not is_ours


def _may_be_launch_failure(facts: SlurmFacts, memory: Memory) -> bool:
    """Return whether Slurm may have cancelled a job because its node could not start it.

    Slurm reports such a job as cancelled, as if an administrator had cancelled it on its node.
    """
    if facts.cancellation is None or facts.cancellation.uid or facts.has_begun:
        return False
    return _is_cancelled(facts, memory) and bool(nodes_of(facts.rows))


def _end_by(facts: SlurmFacts, memory: Memory) -> EndByCluster:
    """Explain the end of a job that Slurm or a person has ended."""
    job, nodes = facts.job, nodes_of(facts.rows)
    if facts.state is SlurmState.PREEMPTED:
        return EndByCluster(f"Slurm has preempted the job {job} of the attempt", Loss.MAINTENANCE)
    if facts.state is SlurmState.LIMIT:
        return EndByCluster(f"the Slurm job {job} has reached its time limit", Loss.LIMIT)
    if facts.state is SlurmState.NODE_LOST:
        words = sorted({row.state for row in facts.rows})
        why = f"Slurm reports {', '.join(words)} for the job {job} of the attempt"
        return EndByCluster(f"{why} on {', '.join(nodes) or 'no node'}", Loss.INFRA, nodes)
    if memory.is_requeued:
        why = f"the Slurm job {job} was requeued, and an attempt starts only once"
        return EndByCluster(why, Loss.INFRA)
    why = states.explain_cancelled(job, facts.cancellation or Cancellation())
    return EndByCluster(why, Loss.OPERATOR if facts.holds_cancelled else Loss.INFRA)


def _explain_never_began(facts: SlurmFacts) -> EndByCluster:
    """Explain a batch step that did nothing: its node could not run it, or not see the spool."""
    job, word, nodes = facts.rows[0].id, states.reason_of(facts.rows), nodes_of(facts.rows)[:1]
    statement = f" (Slurm says {word})" if word else ""
    if not nodes:
        why = f"the batch step of the Slurm job {job} never began{statement}"
        return EndByCluster(why, Loss.INFRA)
    check = f"`srun -w {nodes[0]} ls -d {facts.spool}` shows whether the node sees the spool"
    why = f"the batch step of the Slurm job {job} never began on {nodes[0]}{statement}; {check}"
    return EndByCluster(why, Loss.INFRA, nodes)


def _is_doubtful(outcome: Outcome) -> bool:
    """Return whether another user or Slurm may have ended the attempt with a signal."""
    if not outcome.exit_code:
        return False
    return outcome.interrupted or any(
        replica.signal is not None or (replica.exit_code or 0) >= SIGNAL_BASE
        for replica in outcome.replicas
    )


def _interrupted(outcome: Outcome, facts: SlurmFacts) -> EndByCluster:
    """Explain an attempt that was signalled and ended in time; Slurm reports no reason for it."""
    if _is_time_over(outcome):
        return EndByCluster(outcome.message, Loss.LIMIT)
    if outcome.message.endswith((ENDS_PROCESSES, _ENDS_PROCESSES_EARLIER)):
        return EndByCluster(f"the cluster reclaims its nodes: {outcome.message}", Loss.MAINTENANCE)
    nodes = nodes_of(facts.rows)[:1]
    return EndByCluster("the launcher was stopped from outside Trainshed", Loss.INFRA, nodes)


def _is_time_over(outcome: Outcome) -> bool:
    """Return whether the launcher itself has ended the attempt at the end of its time."""
    return outcome.interrupted and outcome.message.startswith(TIME_IS_OVER)


def nodes_of(rows: Sequence[SlurmJob]) -> tuple[str, ...]:
    """List the nodes of a job, each once."""
    return tuple(dict.fromkeys(node for row in rows for node in row.nodes))
