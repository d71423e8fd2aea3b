"""Why the cluster or another user has ended an attempt: the causes, from strong to weak.

Several causes hold together: a queue that preempts a job suspends its JobSet, and the JobSet's
controller deletes the pods.  The watches of two kinds of objects are not ordered against each
other, so the first observation may show only the effect.  So each cause has a rank, a cause of a
higher rank replaces a lower one, and a weak cause counts only after some seconds.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.kubernetes.state import reasons
from trainshed.engines.kubernetes.state.facts import (
    OUT_OF_MEMORY,
    ContainerFacts,
    KubernetesFacts,
    PodFacts,
)
from trainshed.engines.kubernetes.state.kueue import EVICTED
from trainshed.model.attempt import Loss
from trainshed.model.exit_status import SIGNAL_BASE

#: The exit code of a program that was killed by SIGKILL.
_KILLED: Final = SIGNAL_BASE + 9


class EndCause(NamedTuple):
    """Why an attempt has ended, or is about to end."""

    end: EndByCluster
    rank: int
    """The position in the list of causes; a smaller rank is a stronger cause."""

    @property
    def is_weak(self) -> bool:
        """Whether this may be the effect of a stronger cause that was not observed yet."""
        return self.rank >= _WEAK_FROM


def find_cause(facts: KubernetesFacts, *, has_finished: bool) -> EndCause | None:
    """Return the strongest cause that the API's objects show now; None: they show none.

    Deleting a JobSet that has finished ends nothing.
    """
    for rank, (find, _) in enumerate(_CAUSES):
        is_late = has_finished and find is _find_deletion
        end = None if is_late else find(facts)
        if end is not None:
            return EndCause(end, rank)
    return None


def stronger(cause: EndCause | None, other: EndCause | None) -> EndCause | None:
    """Return the stronger of two causes, the first of which was observed earlier.

    Of two equal ones the text that names more replicas counts, but the first text of a weak cause:
    the cluster deletes other pods because of the first.
    """
    if cause is None or other is None:
        return cause or other
    if cause.rank == other.rank and cause.is_weak:
        return cause
    return min(cause, other, key=lambda one: (one.rank, -len(one.end.fault)))


def _find_out_of_memory(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of a program for which its container's memory was not enough."""
    killed = [(pod, c) for pod, c in _list_killed(facts) if c.name == _PROGRAM]
    if not killed:
        return None
    pod, container = killed[0]
    fault = f"{facts.task_name(pod)} was killed by SIGKILL: {_describe_memory(container)}"
    return EndByCluster(fault, exit_code=_KILLED)


def _find_other_out_of_memory(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of a container that runs no program of the job, such as the launcher's."""
    killed = list(_list_killed(facts))
    if not killed:
        return None
    pod, container = killed[0]
    where = f"the container {container.name} of the pod {pod.name}"
    return EndByCluster(f"{where} was killed: {_describe_memory(container)}", Loss.INFRA)


def _list_killed(facts: KubernetesFacts) -> Iterator[tuple[PodFacts, ContainerFacts]]:
    for pod in facts.pods:
        yield from ((pod, c) for c in pod.containers if c.ended == OUT_OF_MEMORY)


def _describe_memory(container: ContainerFacts) -> str:
    limit = container.memory_limit
    return f"out of memory at its limit of {limit}" if limit else "out of memory"


def _find_own_limit(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of a pod that used more storage than its own limit."""
    pod = next((pod for pod in facts.pods if pod.reason == _EVICTED and not pod.disruption), None)
    if pod is None:
        return None
    fault = f"the cluster has ended {facts.task_name(pod)}: {reasons.quote(pod.message)}"
    return EndByCluster(fault, exit_code=_KILLED)


def _find_eviction(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of an attempt that Kueue has evicted after its launcher began."""
    evicted = facts.workload.condition(EVICTED) if facts.workload else None
    if evicted is None or not evicted.is_true or not facts.has_begun:
        return None
    queue = f" in the queue {facts.jobset.queue}" if facts.jobset and facts.jobset.queue else ""
    words = f"{evicted.reason}: {reasons.quote(evicted.message)}"
    if _TIME_LIMIT in evicted.reason:
        return EndByCluster(f"the attempt has reached its time limit{queue} ({words})", Loss.LIMIT)
    fault = f"Kueue has evicted the JobSet {facts.name}{queue} ({words})"
    return EndByCluster(fault, Loss.MAINTENANCE)


def _find_disruption(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of an attempt of which the cluster has disrupted a pod, as in a drain."""
    pods = [pod for pod in facts.pods if _is_disrupted(pod, facts)]
    if not pods or pods[0].disruption is None:
        return None
    condition = pods[0].disruption
    where = f" on the node {pods[0].node}" if pods[0].node else ""
    names = reasons.describe_pods(pods, facts)
    words = f"{condition.reason}: {reasons.quote(condition.message)}"
    return EndByCluster(f"the cluster ends {names}{where} ({words})", Loss.MAINTENANCE)


def _is_disrupted(pod: PodFacts, facts: KubernetesFacts) -> bool:
    """Return whether the cluster has ended a pod on a node that still works."""
    if pod.disruption is None or pod.disruption.reason == _COLLECTED or pod.phase == _SUCCEEDED:
        return False
    if pod.disruption.reason != _TAINTED:
        return True
    return pod.node not in facts.silent and not facts.is_removed(pod.node)


def _find_lost_node(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of an attempt with a node that was removed from the cluster."""
    pods = [pod for pod in facts.pods if _has_lost_node(pod, facts)]
    if not pods:
        return None
    nodes = tuple(sorted({pod.node for pod in pods}))
    names = reasons.describe_pods(pods, facts)
    noun, verb = ("node", "was") if len(nodes) == 1 else ("nodes", "were")
    fault = f"the {noun} {reasons.join_names(nodes)} of {names} {verb} removed from the cluster"
    return EndByCluster(fault, Loss.INFRA, nodes)


def _has_lost_node(pod: PodFacts, facts: KubernetesFacts) -> bool:
    """Return whether the node of a pod was removed before the pod had ended."""
    is_collected = pod.disruption is not None and pod.disruption.reason == _COLLECTED
    has_ended = pod.is_over and not pod.is_deleting
    return is_collected or (facts.is_removed(pod.node) and not has_ended)


def _find_deadline(facts: KubernetesFacts) -> EndByCluster | None:
    reached = [e for e in facts.events if e.reason == _DEADLINE and e.kind == "Job"]
    if not reached and not any(pod.reason == _DEADLINE for pod in facts.pods):
        return None
    fault = f"the JobSet {facts.name} has reached its time limit (activeDeadlineSeconds)"
    return EndByCluster(fault, Loss.LIMIT)


def _find_deletion(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of an attempt whose JobSet another user has deleted."""
    is_deleting = facts.jobset is not None and facts.jobset.is_deleting
    if facts.order is not None or not (is_deleting or facts.is_gone):
        return None
    fault = f"another user or program has deleted the JobSet {facts.name} of the attempt"
    if facts.successor:
        fault += f", and has created another one of this name (uid {facts.successor})"
    return EndByCluster(f"{fault}; Trainshed starts an attempt only once", Loss.INFRA)


def _find_suspension(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of an attempt whose JobSet was suspended after its launcher began."""
    is_suspended = facts.jobset is not None and facts.jobset.is_suspended
    if not is_suspended or not facts.has_begun:
        return None
    fault = (
        f"the JobSet {facts.name} was suspended after the attempt had begun, and Trainshed starts "
        "an attempt only once"
    )
    return EndByCluster(fault, Loss.INFRA)


def _find_deleted_pod(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of an attempt of which another user has deleted a pod.

    The Job controller deletes the other pods of a Job with a failed pod, and the JobSet controller
    those of a JobSet that has finished: these deletions are no cause.
    """
    jobset = facts.jobset
    if jobset is None or jobset.terminal or jobset.is_deleting or jobset.is_suspended:
        return None
    failed = {pod.role for pod in facts.pods if _has_failed(pod) and not pod.is_deleting}
    pods = [pod for pod in facts.pods if pod.is_deleting and pod.role not in failed]
    if not pods:
        return None
    names = reasons.describe_pods(pods, facts)
    fault = f"another user or program has deleted the pod {pods[0].name} ({names})"
    return EndByCluster(fault, Loss.INFRA)


def _has_failed(pod: PodFacts) -> bool:
    return pod.phase == "Failed" or any(c.exit_code not in {None, 0} for c in pod.containers)


#: The container of a replica's program, in the pod of every replica.
_PROGRAM: Final = "main"
#: Reasons of the condition DisruptionTarget: a pod of a removed node, and of a node with a taint.
_COLLECTED: Final = "DeletionByPodGC"
_SUCCEEDED: Final = "Succeeded"
_TAINTED: Final = "DeletionByTaintManager"
#: The reason of the status of a pod that its node has ended.
_EVICTED: Final = "Evicted"
_DEADLINE: Final = "DeadlineExceeded"
#: A part of the reason of an eviction because of a time limit in Kueue.
_TIME_LIMIT: Final = "MaximumExecutionTime"

#: The causes, from strong to weak, each with whether it may be the effect of an unobserved one.
_CAUSES: Final[tuple[tuple[Callable[[KubernetesFacts], EndByCluster | None], bool], ...]] = (
    (_find_out_of_memory, False),
    (_find_own_limit, False),
    (_find_eviction, False),
    (_find_disruption, False),
    (_find_lost_node, False),
    (_find_other_out_of_memory, False),
    (_find_deadline, False),
    (_find_deletion, False),
    (_find_suspension, True),
    (_find_deleted_pod, True),
)
_WEAK_FROM: Final = next(rank for rank, (_, is_weak) in enumerate(_CAUSES) if is_weak)
