"""The facts of one observation of an attempt: its folder, and the API's objects.

Facts are values without a meaning: ``objects`` reads them, and ``proof`` decides what they prove.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.supervise.record.folder import Order
from trainshed.model.attempt import AttemptKey, Outcome

#: The value of ``managedBy`` of a JobSet that this cluster's own controller runs.
OWN_CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"
#: Phases of a pod in which none of its containers runs or can run.
_OVER: Final = frozenset({"Succeeded", "Failed"})
#: The event of a pod whose node does not report any more.
_SILENT: Final = "NodeNotReady"
#: Reasons of an ended container that has never run.
START_ERRORS: Final = frozenset({"StartError", "ContainerCannotRun"})
OUT_OF_MEMORY: Final = "OOMKilled"


class ObjectCondition(NamedTuple):
    """A condition of an object."""

    is_true: bool
    reason: str = ""
    message: str = ""


#: The condition that an object does not have.
ABSENT: Final = ObjectCondition(is_true=False)


class ContainerFacts(NamedTuple):
    """One container of a pod."""

    name: str
    image: str = ""
    waiting: str = ""
    """Why the container waits; empty if it does not wait, or if the kubelet gives no reason."""
    is_running: bool = False
    ended: str = ""
    """How the container has ended, such as ``OOMKilled``; empty unless it has ended."""
    exit_code: int | None = None
    message: str = ""
    """The kubelet's message about the current state."""
    memory_limit: str = ""
    """The memory limit as in the manifest, such as ``64Mi``; empty without a limit."""

    @property
    def has_started(self) -> bool:
        """Whether the program of the container has run, or runs."""
        return self.is_running or bool(self.ended and self.ended not in START_ERRORS)


class PodFacts(NamedTuple):
    """One pod, which runs one replica."""

    name: str
    uid: str
    role: str
    """The name of the replicated Job, such as ``worker``."""
    index: int = 0  # type: ignore[assignment] # tuples have a method of that name
    phase: str = "Pending"
    node: str = ""
    is_deleting: bool = False
    is_ready: bool = False
    """Whether the node reports the containers as running."""
    unscheduled: ObjectCondition | None = None
    """The condition PodScheduled if the scheduler has not found a node; else None."""
    disruption: ObjectCondition | None = None
    """The condition DisruptionTarget if the cluster ends the pod; else None."""
    reason: str = ""
    """The reason of the pod's own status, such as ``Evicted``."""
    message: str = ""
    containers: tuple[ContainerFacts, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether no container of the pod runs or can run any more, as the API reports."""
        return self.phase in _OVER

    @property
    def has_started(self) -> bool:
        """Whether every container of the pod has started."""
        has_all = bool(self.containers) and all(c.has_started for c in self.containers)
        return has_all or self.phase == "Succeeded"


class JobSetFacts(NamedTuple):
    """The JobSet of an attempt."""

    name: str
    uid: str
    namespace: str = ""
    is_deleting: bool = False
    is_suspended: bool = False
    conditions: Mapping[str, ObjectCondition] = {}
    replicas: Mapping[str, int] = {}
    """The number of replicas by replicated Job."""
    queue: str = ""
    """The name of the Kueue queue; empty: the JobSet is not for Kueue."""
    priority_class: str = ""
    managed_by: str = ""
    """The controller that the JobSet is for; empty: the cluster's own JobSet controller."""

    @property
    def terminal(self) -> ObjectCondition | None:
        """The condition Completed or Failed of a JobSet that has finished; else None."""
        names = ("Completed", "Failed")
        return next((self.conditions[n] for n in names if self.has(n)), None)

    def has(self, name: str) -> bool:
        """Return whether a condition is true."""
        return self.conditions.get(name, ABSENT).is_true


class EventFacts(NamedTuple):
    """One event of the JobSet, its Jobs or its pods, with the last time at which it happened."""

    kind: str
    name: str
    """The name of the object."""
    reason: str
    message: str
    at: str = ""
    """When the event last happened, in the API's format, which sorts by time."""


class CheckFacts(NamedTuple):
    """One admission check of a Workload."""

    name: str
    state: str
    """``Pending``, ``Ready``, ``Retry`` or ``Rejected``."""
    message: str = ""


class WorkloadFacts(NamedTuple):
    """The Workload that Kueue has made for a JobSet."""

    name: str
    queue: str = ""
    is_active: bool = True
    """False: the Workload was deactivated, and Kueue does not admit it."""
    conditions: Mapping[str, ObjectCondition] = {}
    checks: tuple[CheckFacts, ...] = ()
    clusters: tuple[str, ...] = ()
    """The other clusters that MultiKueue has chosen for the Workload."""

    def condition(self, name: str) -> ObjectCondition:
        """Return a condition; a false one if the Workload does not have it."""
        return self.conditions.get(name, ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesFacts:
    """The facts about an attempt from one observation."""

    key: AttemptKey
    now_s: float = 0.0
    """The time of the observation, in seconds of the monotonic clock."""
    lost_after_s: float = 0.0
    """Seconds to wait for the records of an attempt whose pods are gone."""
    start_timeout_s: float = 900.0
    """Seconds in which all replicas must start once no queue holds the JobSet."""
    image_timeout_s: float = 300.0
    """Seconds in which a node must have pulled an image that it could not pull at first."""

    # the attempt's folder
    end: EndByCluster | None = None
    """The end that an earlier observation has stored; if set, no other fact counts."""
    withdrawn: EndByCluster | None = None
    """The end that was stored before the JobSet was deleted for it; None: not deleted for one."""
    is_submitted: bool = True
    order: Order | None = None
    claim: bool | None = None
    """Whether the server has the claim, so that no pod begins the attempt; None: not tried yet."""
    has_begun: bool = False
    """Whether a launcher has recorded that it began the attempt."""
    is_ready: bool = False
    """Whether the launcher has recorded that every replica was started."""
    outcome: Outcome | None = None
    """The end in the attempt's records; None: no end is recorded."""
    is_lost: bool = False
    """Whether the recorded end says that the launcher lost a replica, or could not start it."""

    # the API
    name: str = ""
    """The name of the JobSet."""
    uid: str = ""
    """The uid of the JobSet; empty: the API has not answered the request to create it."""
    is_new: bool = False
    """Whether the API's lists may lack the JobSet, because it was created just now."""
    is_away: bool = False
    """Whether the API does not answer now."""
    is_synced: bool = True
    """Whether every list was answered since the start and since the API was away."""
    lookup: bool | None = None
    """Whether a request for the JobSet by its name was answered with 404 or another uid, after a
    list lacked it; None: not requested yet."""
    jobset: JobSetFacts | None = None
    """The JobSet with this uid; None: the last list lacks it."""
    successor: str = ""
    """The uid of another JobSet that has the name now; empty: there is none."""
    pods: tuple[PodFacts, ...] = ()
    """The pods of the JobSet with this uid, or of the attempt if they hold its claim."""
    events: tuple[EventFacts, ...] = ()
    workload: WorkloadFacts | None = None
    has_kueue: bool = True
    """Whether the API serves Workloads."""
    reads_workloads: bool = True
    """Whether the server may read Workloads."""
    nodes: Mapping[str, bool] | None = None
    """Whether each node of the cluster is ready; None: the server may not read nodes."""
    task_names: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The task name of each replica, by the name of its replicated Job and its index."""

    @property
    def is_answered(self) -> bool:
        """Whether the API's objects are those of now: an absent object does not exist."""
        return self.is_synced and not self.is_away

    @property
    def is_gone(self) -> bool:
        """Whether the API has confirmed that the JobSet does not exist."""
        return self.is_answered and self.jobset is None and self.lookup is True

    @property
    def living(self) -> tuple[PodFacts, ...]:
        """The pods in which a process of the attempt may run.

        A pod on a node that was removed from the cluster is not one of them.
        """
        return tuple(pod for pod in self.pods if not pod.is_over and not self.is_removed(pod.node))

    @property
    def silent(self) -> tuple[str, ...]:
        """The nodes of living pods that do not report to the cluster any more, sorted."""
        return tuple(sorted({pod.node for pod in self.living if self._is_silent(pod)}))

    def is_removed(self, node: str) -> bool:
        """Return whether a node does not exist any more; False if nodes cannot be read."""
        return bool(node) and self.nodes is not None and node not in self.nodes

    def _is_silent(self, pod: PodFacts) -> bool:
        if self.nodes is not None:
            return self.nodes.get(pod.node) is False
        reports = {event.name for event in self.events if event.reason == _SILENT}
        return bool(pod.node) and not pod.is_ready and pod.name in reports

    def task_name(self, pod: PodFacts) -> str:
        """Return the name of a pod's replica, as in the job's log."""
        return self.task_names.get((pod.role, pod.index), f"{pod.role}-{pod.index}")
