"""Decides the state of one attempt: pure functions from facts to a decision.

The records of the launcher show how the programs ended.  The JobSet, its pods and Kueue's Workload
show why the attempt waits, and why it was ended from outside: a program may get SIGTERM in a drain,
in a preemption, or because a user deleted its pod.  So an end that this server did not order counts
only when the cluster has shown its cause, or has had time to show it.

An attempt without a recorded end is lost only with proof that no process of it can run: the API
answered that its JobSet does not exist, or that its JobSet has finished or lost its pods; no pod of
it is left on a node that exists; and no record has come within ``lost_after_s``.

Some proofs need several observations: ``ClusterMemory`` holds the results of earlier ones, and
``follow`` updates it after each observation.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.decisions import (
    GiveUp,
    Over,
    Recorded,
    Runs,
    TakeClaim,
    Unknown,
    Waits,
    end_early,
)
from trainshed.engines.kubernetes.state import causes, kueue, obstacles, reasons
from trainshed.engines.kubernetes.state.causes import EndCause
from trainshed.engines.kubernetes.state.facts import JobSetFacts, KubernetesFacts
from trainshed.engines.kubernetes.state.launchers import find_failed_launcher
from trainshed.engines.kubernetes.state.obstacles import Obstacle
from trainshed.engines.warden.protocol import ENDS_PROCESSES
from trainshed.model.attempt import Loss, Outcome
from trainshed.model.explanation import Reason

#: Seconds in which the cluster shows the cause of an end: watches are not ordered, and the state of
#: a killed container and the event of a deadline come a second after the pod's end.
SETTLE_S: Final = 5.0
#: Reasons of replicas that have no node until other programs leave their nodes.
_NO_ROOM: Final = frozenset({Reason.CAPACITY, Reason.DRAINED})


class ClusterMemory(NamedTuple):
    """The results of earlier observations.  Times are in seconds of the monotonic clock."""

    is_gone: bool = False
    """Whether the API has confirmed that the JobSet does not exist; its uid never comes back."""
    finished: str = ""
    """How the JobSet has finished, as a part of a sentence; empty: it has not."""
    over_since_s: float | None = None
    """When the cluster first showed that no process of the attempt can run."""
    ended_since_s: float | None = None
    """When the recorded end was first observed."""
    cause: EndCause | None = None
    """The strongest cause of an end that was observed."""
    cause_since_s: float = 0.0
    """When this cause was first observed."""
    early_cause: EndCause | None = None
    """The strongest cause that was observed before a launcher began the attempt."""
    starting_since_s: float | None = None
    """Since when the cluster starts the replicas; None: a queue holds them, or all have started."""
    image_since_s: float | None = None
    """Since when a node cannot pull an image."""
    suspended_since_s: float | None = None
    """Since when the JobSet is suspended without a Workload."""
    obstacle: Obstacle | None = None
    """The last known reason why replicas did not start."""


class LookUp(NamedTuple):
    """Request the JobSet by its name, and decide again: a list lacks it."""


class Withdraw(NamedTuple):
    """Store the end durably, then delete the JobSet; the attempt runs until its pods are gone."""

    end: EndByCluster


ClusterDecision = Unknown | Waits | Runs | Recorded | Over | TakeClaim | GiveUp | LookUp | Withdraw


def follow(memory: ClusterMemory, facts: KubernetesFacts) -> ClusterMemory:
    """Return the memory after the observation of these facts.

    While the API does not answer, objects are those of earlier and prove nothing.
    """
    if facts.end is not None or not facts.is_answered:
        return memory
    facts = _recall(facts, memory)
    is_finished = facts.jobset is not None and facts.jobset.terminal is not None
    finished = reasons.describe_state(facts) if is_finished else memory.finished
    memory = _follow_cause(memory._replace(is_gone=facts.is_gone, finished=finished), facts)
    is_over = _is_over(facts)
    return _follow_start(memory, facts)._replace(
        over_since_s=_since(memory.over_since_s, facts, is_on=is_over),
        ended_since_s=_since(memory.ended_since_s, facts, is_on=facts.outcome is not None),
    )


def _recall(facts: KubernetesFacts, memory: ClusterMemory) -> KubernetesFacts:
    """Return the facts with the result of an earlier request for the JobSet by its name."""
    return replace(facts, lookup=True) if memory.is_gone else facts


def _since(since_s: float | None, facts: KubernetesFacts, *, is_on: bool) -> float | None:
    """Return since when something is observed without a break; None: it is not."""
    if not is_on:
        return None
    return facts.now_s if since_s is None else since_s


def _follow_cause(memory: ClusterMemory, facts: KubernetesFacts) -> ClusterMemory:
    """Remember the strongest cause: its objects may be deleted before the end is recorded.

    As long as an attempt that has not begun can still begin, nothing is a cause of its end; what
    was observed until then counts if the attempt does not begin.
    """
    cause_now = causes.find_cause(facts, has_finished=bool(memory.finished))
    if not facts.has_begun:
        cause_now = causes.stronger(memory.early_cause, cause_now)
        memory = memory._replace(early_cause=cause_now)
        if not _can_begin_no_more(facts):
            return memory._replace(cause=None)
    cause = causes.stronger(memory.cause, cause_now)
    is_known = memory.cause is not None and cause is not None and cause.rank == memory.cause.rank
    since_s = memory.cause_since_s if is_known else facts.now_s
    return memory._replace(cause=cause, cause_since_s=since_s)


def _follow_start(memory: ClusterMemory, facts: KubernetesFacts) -> ClusterMemory:
    jobset = facts.jobset
    is_alive = jobset is not None and not jobset.is_deleting and not jobset.terminal
    is_queued = jobset is not None and jobset.is_suspended
    is_waiting = is_alive and not facts.is_ready and not obstacles.have_all_started(facts)
    is_starting = is_waiting and not is_queued
    has_image_trouble = is_starting and obstacles.find_image_trouble(facts) is not None
    has_no_workload = is_queued and facts.workload is None
    obstacle = obstacles.find_obstacle(facts) if is_starting else None
    return memory._replace(
        starting_since_s=_since(memory.starting_since_s, facts, is_on=is_starting),
        image_since_s=_since(memory.image_since_s, facts, is_on=has_image_trouble),
        suspended_since_s=_since(memory.suspended_since_s, facts, is_on=has_no_workload),
        obstacle=obstacle or memory.obstacle,
    )


def decide_state(facts: KubernetesFacts, memory: ClusterMemory) -> ClusterDecision:
    """Decide the state of an attempt; ``memory`` is the result of ``follow`` for these facts."""
    facts = _recall(facts, memory)
    if facts.end is not None:
        return Over(facts.end, is_written=True)
    if not facts.is_submitted:
        return Unknown() if facts.order is None else Over(end_early(facts.order), is_written=True)
    if facts.order is not None and not facts.has_begun and facts.claim is not False:
        return TakeClaim() if facts.claim is None else Over(end_early(facts.order))
    if facts.outcome is not None:
        return _judge_recorded_end(facts, memory, facts.outcome)
    return _judge_without_end(facts, memory)


def _judge_recorded_end(
    facts: KubernetesFacts, memory: ClusterMemory, outcome: Outcome
) -> ClusterDecision:
    """Decide whether the end in the records counts, or whether the cluster must show its cause."""
    if facts.is_lost and facts.is_answered and facts.silent:
        return Unknown(reasons.explain_unreachable(facts))
    is_doubtful = outcome.interrupted or facts.is_lost
    if facts.order is not None or not is_doubtful:
        return Recorded()
    if not facts.is_answered:
        return Runs()
    end = facts.withdrawn or _find_settled_cause(facts, memory)
    if end is not None:
        return Over(end)
    if not _has_passed(memory.ended_since_s, SETTLE_S, facts):
        return Runs()
    return _judge_without_cause(facts, memory, outcome)


def _judge_without_cause(
    facts: KubernetesFacts, memory: ClusterMemory, outcome: Outcome
) -> ClusterDecision:
    """Decide on an end from outside for which the cluster shows no cause."""
    if not facts.is_lost:
        return Over(_interrupted(outcome))
    if facts.is_ready or memory.obstacle is None:
        return Recorded()
    why = f"{outcome.message}: {memory.obstacle.explanation.message}"
    return Over(EndByCluster(why, Loss.INFRA))


def _judge_without_end(facts: KubernetesFacts, memory: ClusterMemory) -> ClusterDecision:
    """Decide the state of an attempt without an end in its records."""
    if not facts.is_answered or not facts.uid:
        return Unknown()
    if _is_unbegun(facts) and _can_begin_no_more(facts):
        return _end_unbegun(facts, _describe_end(facts, memory))
    if memory.over_since_s is not None:
        return _judge_over(facts, memory)
    if facts.silent:
        return Unknown(reasons.explain_unreachable(facts))
    if facts.jobset is None:
        return _judge_missing(facts)
    return _judge_jobset(facts, memory, facts.jobset)


def _judge_over(facts: KubernetesFacts, memory: ClusterMemory) -> ClusterDecision:
    """Decide for an attempt of which no process can run, after its records had time to come."""
    if not _has_passed(memory.over_since_s, facts.lost_after_s, facts):
        return Runs()
    end = _describe_end(facts, memory)
    return GiveUp(end.fault, end)


def _judge_missing(facts: KubernetesFacts) -> ClusterDecision:
    """Decide for a JobSet that the lists lack: a list may be older than the JobSet."""
    if not facts.is_new and facts.lookup is None:
        return LookUp()
    if facts.has_begun or facts.is_gone:
        return Runs()
    return Waits(reasons.explain_created(facts))


def _judge_jobset(
    facts: KubernetesFacts, memory: ClusterMemory, jobset: JobSetFacts
) -> ClusterDecision:
    """Decide for a JobSet that exists, by its state and its pods."""
    is_ending = facts.withdrawn is not None or facts.order is not None
    if is_ending or jobset.is_deleting or jobset.terminal:
        return Runs()
    end = _find_withdrawal(facts, memory, jobset)
    if end is not None:
        return _end_unbegun(facts, end) if _is_unbegun(facts) else Withdraw(end)
    if jobset.is_suspended and not facts.has_begun:
        return Waits(_explain_queue(facts, memory).explanation)
    obstacle = obstacles.find_obstacle(facts) if not jobset.is_suspended else None
    explanation = obstacle.explanation if obstacle else None
    if facts.has_begun or any(pod.node for pod in facts.pods):
        return Runs(explanation)
    return Waits(explanation or reasons.explain_created(facts))


def _find_withdrawal(
    facts: KubernetesFacts, memory: ClusterMemory, jobset: JobSetFacts
) -> EndByCluster | None:
    """Return the end for which the server deletes the JobSet; None: it may start, or go on."""
    if facts.has_begun and jobset.is_suspended:
        return _find_settled_cause(facts, memory)
    if jobset.is_suspended:
        obstacle = _explain_queue(facts, memory)
        return None if obstacle.heals else _fail(obstacle)
    if (end := find_failed_launcher(facts)) is not None:
        return end
    obstacle_now = obstacles.find_obstacle(facts)
    if obstacle_now is not None and not obstacle_now.heals:
        return _fail(obstacle_now)
    return _find_timeout(facts, memory, obstacle_now)


def _find_timeout(
    facts: KubernetesFacts, memory: ClusterMemory, obstacle: Obstacle | None
) -> EndByCluster | None:
    """Return the end of an attempt that did not start in time; None: it still has time."""
    if _has_passed(memory.image_since_s, facts.image_timeout_s, facts):
        image = obstacles.find_image_trouble(facts)
        if image is not None:
            why = image.explanation.message
            return EndByCluster(f"{why} (for {facts.image_timeout_s:g} s)", never=True)
    if not _has_passed(memory.starting_since_s, facts.start_timeout_s, facts):
        return None
    fault = obstacles.describe_late(facts, obstacle)
    if obstacle is not None and obstacle.is_bad_request:
        return EndByCluster(fault, never=True)
    # a lack of room passes by itself, as after a drain: it must not use up the job's restarts
    waits_for_room = obstacle is not None and obstacle.explanation.reason in _NO_ROOM
    return EndByCluster(fault, Loss.MAINTENANCE if waits_for_room else Loss.INFRA)


def _fail(obstacle: Obstacle) -> EndByCluster:
    return EndByCluster(obstacle.explanation.message, never=True)


def _explain_queue(facts: KubernetesFacts, memory: ClusterMemory) -> Obstacle:
    since_s = memory.suspended_since_s
    suspended_s = 0.0 if since_s is None else facts.now_s - since_s
    return kueue.explain_suspended(facts, suspended_s)


def _is_unbegun(facts: KubernetesFacts) -> bool:
    """Return whether the server may still prevent that a pod begins the attempt."""
    return not facts.has_begun and facts.claim is not False


def _end_unbegun(facts: KubernetesFacts, end: EndByCluster) -> ClusterDecision:
    """End an attempt that has not begun; with the server's claim, no pod begins it later."""
    return TakeClaim() if facts.claim is None else Over(end)


def _can_begin_no_more(facts: KubernetesFacts) -> bool:
    """Return whether the JobSet is gone, is being deleted, or has finished."""
    jobset = facts.jobset
    if jobset is None:
        return facts.is_gone
    return jobset.is_deleting or jobset.terminal is not None


def _is_over(facts: KubernetesFacts) -> bool:
    """Return whether no process of the attempt can run, by the API's objects."""
    if facts.living:
        return False
    if facts.jobset is None:
        return facts.is_gone
    return facts.jobset.terminal is not None or facts.has_begun


def _find_settled_cause(facts: KubernetesFacts, memory: ClusterMemory) -> EndByCluster | None:
    """Return the end by the observed cause; None: no cause, or it may have a stronger one."""
    cause = memory.cause
    if cause is None or (cause.is_weak and not _has_passed(memory.cause_since_s, SETTLE_S, facts)):
        return None
    return cause.end


def _has_passed(since_s: float | None, seconds: float, facts: KubernetesFacts) -> bool:
    return since_s is not None and facts.now_s - since_s >= seconds


def _describe_end(facts: KubernetesFacts, memory: ClusterMemory) -> EndByCluster:
    """Return the end of an attempt that the cluster has ended, and that records no end."""
    if facts.withdrawn is not None:
        return facts.withdrawn
    if memory.cause is not None and facts.order is None:
        return memory.cause.end
    obstacle = None if facts.has_begun else obstacles.find_obstacle(facts)
    if obstacle is not None and not obstacle.heals:
        return _fail(obstacle)
    if (end := find_failed_launcher(facts)) is not None:
        return end
    state = memory.finished or reasons.describe_state(facts)
    return EndByCluster(f"{state}, and no end is recorded", Loss.INFRA)


def _interrupted(outcome: Outcome) -> EndByCluster:
    """Explain an attempt that was signalled and ended in time, without a cause in the cluster."""
    if outcome.message.endswith(ENDS_PROCESSES):
        return EndByCluster(f"the cluster reclaims its nodes: {outcome.message}", Loss.MAINTENANCE)
    return EndByCluster("the launcher was stopped from outside Trainshed", Loss.INFRA)
