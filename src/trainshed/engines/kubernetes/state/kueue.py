"""Why a suspended JobSet waits: Kueue's Workload for it, in words of users.

Kueue of v1beta2 gives a reason for each cause.  Kueue of v1beta1 gives ``Pending`` or
``Inadmissible`` for most of them, and the cause only in its message.
"""

import re
from collections.abc import Mapping
from typing import Final

from trainshed.engines.kubernetes.state import reasons
from trainshed.engines.kubernetes.state.facts import (
    CheckFacts,
    JobSetFacts,
    KubernetesFacts,
    ObjectCondition,
    WorkloadFacts,
)
from trainshed.engines.kubernetes.state.obstacles import Obstacle
from trainshed.model.explanation import Explanation, Reason

#: Seconds in which Kueue must have made a Workload for a JobSet.
NO_WORKLOAD_S: Final = 30.0
#: The Workload's condition of a preemption or another eviction.
EVICTED: Final = "Evicted"


def explain_suspended(facts: KubernetesFacts, suspended_s: float) -> Obstacle:
    """Explain why a suspended JobSet waits; ``suspended_s``: for how many seconds it is observed.

    The obstacle heals, except for a queue that hands the JobSet to another cluster.
    """
    jobset = facts.jobset
    if jobset is None or not jobset.queue:
        return _explain_by_hand(facts)
    if facts.workload is None:
        return _explain_no_workload(facts, jobset, suspended_s)
    return _explain_workload(jobset, facts.workload)


def _explain_by_hand(facts: KubernetesFacts) -> Obstacle:
    command = (
        f"""`kubectl patch jobset {facts.name} --type merge -p '{{"spec":{{"suspend":false}}}}'`"""
    )
    text = f"another user has suspended the JobSet {facts.name}; {command} resumes it"
    return _wait(Reason.HELD, text)


def _explain_no_workload(
    facts: KubernetesFacts, jobset: JobSetFacts, suspended_s: float
) -> Obstacle:
    event = next((e for e in reversed(facts.events) if e.reason in _NO_PRIORITY_CLASS), None)
    if event is not None:
        name = f" {jobset.priority_class}" if jobset.priority_class else ""
        text = (
            f"Kueue does not know the priority class{name} of the JobSet {jobset.name}; create it "
            f"in the cluster, or choose another one for the job (Kueue says {event.reason}: "
            f"{reasons.quote(event.message)})"
        )
        return _wait(Reason.HELD, text)
    if not facts.has_kueue:
        text = (
            f"the JobSet {jobset.name} is for the queue {jobset.queue}, and the cluster has no "
            "Kueue; install Kueue, or remove the queue from the [[engine]] table and the job"
        )
        return _wait(Reason.HELD, text)
    if not facts.reads_workloads:
        text = (
            f"the job waits in the queue {jobset.queue}, and the server may not read Kueue's "
            "Workloads, which say why; let an administrator add the rule of Workloads to the Role "
            "of the server (`trainshed doctor --engine NAME` prints the rule)"
        )
        return _wait(Reason.ENGINE_QUEUE, text)
    if suspended_s < NO_WORKLOAD_S:
        return _wait(Reason.ENGINE_QUEUE, f"Kueue has made no Workload for {jobset.name} yet")
    text = (
        f"Kueue has made no Workload for the JobSet {jobset.name} within {NO_WORKLOAD_S:g} s; "
        "check that Kueue runs, and that its configuration has jobset.x-k8s.io/jobset in "
        f"integrations.frameworks ({reasons.inspect_command('jobset', facts, jobset.name)})"
    )
    return _wait(Reason.HELD, text)


def _explain_workload(jobset: JobSetFacts, workload: WorkloadFacts) -> Obstacle:
    if workload.clusters:
        text = (
            f"the queue {jobset.queue} hands the JobSet {jobset.name} to the cluster "
            f"{reasons.join_names(workload.clusters)} (MultiKueue), and Trainshed runs attempts "
            "only in the cluster of its own claim; choose another queue"
        )
        explanation = Explanation(reason=Reason.NO_SUCH_NODE, message=text)
        return Obstacle(explanation, heals=False)
    if not workload.is_active:
        text = (
            f"the Workload {workload.name} of the JobSet {jobset.name} is deactivated; set its "
            "spec.active to true, or cancel the job"
        )
        return _wait(Reason.HELD, text)
    quota = workload.condition("QuotaReserved")
    if quota.is_true:
        return _explain_checks(jobset, workload)
    return _explain_quota(jobset, quota)


def _explain_checks(jobset: JobSetFacts, workload: WorkloadFacts) -> Obstacle:
    """Explain a Workload with quota that is not admitted yet, by its admission checks."""
    check = next((check for check in workload.checks if check.state != "Ready"), None)
    if check is None:
        return _wait(Reason.ENGINE_QUEUE, f"the queue {jobset.queue} is starting the job")
    reason = Reason.HELD if check.state == "Rejected" else Reason.ENGINE_QUEUE
    return _wait(reason, _describe_check(jobset, check))


def _describe_check(jobset: JobSetFacts, check: CheckFacts) -> str:
    verb = "has rejected" if check.state == "Rejected" else "has not admitted"
    words = f"{check.state}: {reasons.quote(check.message)}" if check.message else check.state
    text = f"the admission check {check.name} of the queue {jobset.queue} {verb} the job"
    return f"{text} (Kueue says {words})"


def _explain_quota(jobset: JobSetFacts, quota: ObjectCondition) -> Obstacle:
    word = quota.reason
    if word not in _MEANINGS:
        word = next((w for pattern, w in _WORDS if pattern.search(quota.message)), "")
    reason, sentence = _MEANINGS.get(word, _IN_QUEUE)
    said = f"{quota.reason}: {reasons.quote(quota.message)}" if quota.message else quota.reason
    statement = f"Kueue says {said}" if said else "Kueue gives no reason yet"
    return _wait(reason, f"{sentence.format(queue=jobset.queue)} ({statement})")


_NO_PRIORITY_CLASS: Final = frozenset({"WorkloadPriorityClassNotFound", "PriorityClassNotFound"})
_IN_QUEUE: Final = (Reason.ENGINE_QUEUE, "the job waits in the queue {queue}")

#: Reasons of the condition QuotaReserved.
_MEANINGS: Final[Mapping[str, tuple[Reason, str]]] = {
    "WaitingForQuota": (Reason.QUOTA, "other jobs use the quota of the queue {queue}"),
    "ExceedsMaxQuota": (
        Reason.NO_SUCH_NODE,
        (
            "the job needs more than the whole quota of the queue {queue}: make it smaller, choose "
            "another queue, or let an administrator raise the quota"
        ),
    ),
    "NoMatchingFlavor": (
        Reason.NO_SUCH_NODE,
        "the queue {queue} has no resource flavor for the nodes that the job needs",
    ),
    "TopologyPlacementFailed": (
        Reason.CAPACITY,
        "the nodes of the queue {queue} that are free are not close enough to each other",
    ),
    "WaitingForPreemptedWorkloads": (
        Reason.ENGINE_QUEUE,
        "the queue {queue} is ending other jobs to make room for the job",
    ),
    "WaitingForPodsReady": (
        Reason.ENGINE_QUEUE,
        "the queue {queue} waits until the pods of another job are ready",
    ),
    "Misconfigured": (
        Reason.NO_SUCH_NODE,
        "the queue {queue}, or its ClusterQueue, does not exist: create it, or choose another one",
    ),
    "Suspended": (
        Reason.HELD,
        "the queue {queue} is stopped: an administrator must start it again",
    ),
    "AdmissionGated": (Reason.HELD, "another controller holds the job in the queue {queue}"),
    "PendingEvaluation": _IN_QUEUE,
}

#: Messages of Kueue of v1beta1, with the reason that v1beta2 has.  The first match counts.
_WORDS: Final = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"Pending the preemption", "WaitingForPreemptedWorkloads"),
        (r"doesn't exist", "Misconfigured"),
        (r"is inactive|is stopped", "Suspended"),
        (r"maximum capacity", "ExceedsMaxQuota"),
        (r"insufficient unused quota", "WaitingForQuota"),
        (r"topology", "TopologyPlacementFailed"),
        (r"untolerated taint|doesn't match node affinity|does not provide", "NoMatchingFlavor"),
    )
)


def _wait(reason: Reason, text: str) -> Obstacle:
    return Obstacle(Explanation(reason=reason, message=text))
