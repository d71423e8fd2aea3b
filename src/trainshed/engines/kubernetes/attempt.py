"""Observes one attempt: reads facts from its folder and from the API's objects, then acts on them.

``state.proof`` decides from the facts.
"""

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from trainshed.engines import cluster_end, decisions, spool
from trainshed.engines.decisions import (
    GiveUp,
    Over,
    Recorded,
    Runs,
    TakeClaim,
    Unknown,
    Waits,
)
from trainshed.engines.kubernetes import attempt_files, names
from trainshed.engines.kubernetes.attempt_files import ReplicaNode, SubmissionRecord
from trainshed.engines.kubernetes.objects import AttemptObjects
from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.kubernetes.state import proof, reasons
from trainshed.engines.kubernetes.state.facts import KubernetesFacts, PodFacts
from trainshed.engines.kubernetes.state.proof import (
    ClusterDecision,
    ClusterMemory,
    LookUp,
    Withdraw,
)
from trainshed.engines.kubernetes.view import ClusterView
from trainshed.engines.last_observation import LastObservation, read_folder_state
from trainshed.engines.processes.moments import Moments
from trainshed.engines.supervise.record import observe
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.model.attempt import AttemptKey, Observation, Phase
from trainshed.model.resources import Seat

#: Seconds in which the API's lists must show a created JobSet.
SETTLE_S: Final = 10.0
#: The role of each replicated Job.
_ROLES: Final = {name: role for role, name in names.JOB_NAMES.items()}


@dataclass(slots=True)
class KubernetesAttempt:
    """One attempt; each observation reads only the records that are new."""

    key: AttemptKey
    folder: AttemptFolder
    engine: str
    options: KubernetesOptions
    records: AttemptRecords = field(default_factory=AttemptRecords)
    submitted: SubmissionRecord | None = None
    final: Observation | None = None
    launching: threading.Lock = field(default_factory=threading.Lock)
    """The thread that launches the attempt holds this lock."""
    is_read_only: bool = False
    """Whether this process must not write files, because another process serves the attempt."""
    wants_lookup: bool = False
    """Whether a request for the JobSet by its name must show whether it exists."""
    lookup: bool | None = None
    """The result of such a request: whether the JobSet does not exist; None: no result yet."""
    must_end: bool = False
    """Whether the JobSet must be deleted, because of an end that is stored."""
    is_secret_deleted: bool = False
    """Whether the Secret of an attempt without a JobSet was deleted by this server."""
    records_size: int = -1
    """Size of the records in bytes when their growth was last reported."""
    _lacks_jobset: bool = False
    """Whether the last list lacked the JobSet: soon afterwards, a list may be older than it."""
    _looked_up_s: float = 0.0
    """When ``lookup`` was stored, in seconds of the monotonic clock."""
    _nodes: tuple[ReplicaNode, ...] = ()
    _task_names: Mapping[tuple[str, int], str] = field(default_factory=dict)
    _replica_count: int = 0
    """The number of replicas; 0: the JobSet is not known yet."""
    _claimant: str = ""
    _last: LastObservation = field(default_factory=LastObservation)
    _memory: ClusterMemory = field(default_factory=ClusterMemory)
    _moments: Moments = field(default_factory=Moments)

    @property
    def uid(self) -> str:
        """The uid of the JobSet; empty: not known yet."""
        return self.submitted.uid if self.submitted else ""

    @property
    def has_stray_secret(self) -> bool:
        """Whether the cluster may have a Secret of the attempt that no JobSet owns."""
        is_over = self.final is not None and self.submitted is not None
        return is_over and not self.uid and not self.is_secret_deleted

    def unchanged(self, view: ClusterView) -> Observation | None:
        """Return the last observation if folder and objects have not changed; else None.

        An attempt whose state can change with time alone is always observed again.
        """
        if self.final is not None:
            return self.final
        is_timed = self._is_timed or self._lacks_jobset
        files = None if is_timed else read_folder_state(self.folder)
        return self._last.reuse(files, (*view.version(self.key), self.lookup), time.monotonic())

    @property
    def _is_timed(self) -> bool:
        """Whether the state can change although no file and no object changes."""
        memory = self._memory
        times = (memory.over_since_s, memory.ended_since_s, memory.starting_since_s,
                 memory.image_since_s, memory.suspended_since_s)  # fmt: skip
        return any(since_s is not None for since_s in times)

    def observation(self, view: ClusterView) -> Observation:
        """Observe the attempt now.  Raises OSError or ValueError if its folder is unreadable."""
        self._last.observation = None  # if reading fails, the old one is not valid any more
        if self.final is None:
            self._read()
            objects = view.find(self.key, self.submitted, self._claimant)
            self._lacks_jobset = bool(self.uid) and objects.jobset is None
            self._drop_old_lookup(is_listed=objects.jobset is not None)
            if objects.jobset is not None:
                self._replica_count = sum(objects.jobset.replicas.values())
            self._follow_nodes(objects.pods)
            observation = self._decide(view, objects)
            if observation.phase not in {Phase.ENDED, Phase.LOST}:
                self._last.observation = observation
                return observation
            self.final = observe.with_report(observation._replace(placed=self.seats), self.folder)
        return self.final

    def note_lookup(self, *, is_absent: bool) -> None:
        """Store the result of a request for the JobSet; the next observation uses it."""
        self._looked_up_s = time.monotonic()
        self.lookup, self.wants_lookup = is_absent, False

    def _drop_old_lookup(self, *, is_listed: bool) -> None:
        """Forget that the JobSet existed: it may be gone now.  A uid that is gone never returns."""
        is_old = is_listed or time.monotonic() - self._looked_up_s >= SETTLE_S
        if self.lookup is False and is_old:
            self.lookup = None

    def _read(self) -> None:
        if self.submitted is None or not self.submitted.uid:
            self.submitted = attempt_files.read_submission(self.folder) or self.submitted
        if not self._task_names and self.submitted is not None:
            self._task_names = self.submitted.task_names
        self.records.read(self.folder.records)
        if not self._nodes and self.submitted is not None:
            self._nodes = attempt_files.read_nodes(self.folder)
        if not self._claimant and self.records.began is not None:
            self._claimant = attempt_files.read_claimant(self.folder)

    def _decide(self, view: ClusterView, objects: AttemptObjects) -> Observation:
        facts = self._read_facts(view, objects)
        self._memory = proof.follow(self._memory, facts)
        decision = proof.decide_state(facts, self._memory)
        if isinstance(decision, TakeClaim):
            facts = replace(facts, claim=spool.take_claim(self.folder))
            decision = proof.decide_state(facts, self._memory)
        if isinstance(decision, GiveUp):
            decision = self._give_up(decision, facts)
        return self._perform(decision, facts)

    def _read_facts(self, view: ClusterView, objects: AttemptObjects) -> KubernetesFacts:
        end = attempt_files.read_end(self.folder)
        ended = self.records.ended
        return KubernetesFacts(
            key=self.key,
            now_s=time.monotonic(),
            lost_after_s=self.options.lost_after_s,
            start_timeout_s=self.options.start_timeout_s,
            image_timeout_s=self.options.image_timeout_s,
            end=end,
            withdrawn=attempt_files.read_withdrawn(self.folder),
            is_submitted=self.submitted is not None,
            order=None if end else self.folder.stop_order(),
            claim=False if self.is_read_only else None,
            has_begun=self.records.began is not None,
            is_ready=self.records.ready is not None,
            outcome=ended.outcome if ended else None,
            is_lost=ended.lost if ended else False,
            name=self.submitted.name if self.submitted else "",
            uid=self.uid,
            is_new=self._is_new(),
            is_away=view.is_away,
            is_synced=view.is_synced,
            lookup=self.lookup,
            jobset=objects.jobset,
            successor=objects.successor,
            pods=objects.pods,
            events=objects.events,
            workload=objects.workload,
            has_kueue=view.has_kueue,
            reads_workloads=view.reads_workloads,
            nodes=view.nodes,
            task_names=self._task_names,
        )

    def _is_new(self) -> bool:
        """Return whether the API's lists may lack the JobSet, because it was created just now."""
        if self.submitted is None:
            return False
        return self._moments.age_s("submitted", self.submitted.since_s) < SETTLE_S

    def _give_up(self, decision: GiveUp, facts: KubernetesFacts) -> ClusterDecision:
        """Read the records a last time; decide again if they have an end now."""
        self.records.read(self.folder.records)
        ended = self.records.ended
        if ended is not None:
            facts = replace(facts, outcome=ended.outcome, is_lost=ended.lost)
            self._memory = proof.follow(self._memory, facts)
            return proof.decide_state(facts, self._memory)
        return decisions.give_up(
            decision.why,
            observe.last_words(self.folder),
            has_ended=False,
            has_decided=self.records.decided is not None,
            end=decision.end,
        )

    def _perform(  # noqa: PLR0911 - one return for each decision
        self, decision: ClusterDecision, facts: KubernetesFacts
    ) -> Observation:
        """Store the decision, and return it as an observation."""
        if isinstance(decision, Waits):
            return Observation(key=self.key, phase=Phase.WAITING, waits=decision.waits)
        if isinstance(decision, Runs):
            return self._report_running()._replace(waits=decision.waits)
        if isinstance(decision, Recorded):
            return observe.compose_observation(self.key, self.records)
        if isinstance(decision, Over):
            return self._perform_end(decision)
        if isinstance(decision, LookUp):
            return self._perform_lookup(facts)
        if isinstance(decision, Withdraw):
            return self._perform_withdrawal(decision)
        waits = decision.waits if isinstance(decision, Unknown) else None
        return Observation(key=self.key, phase=Phase.UNKNOWN, waits=waits)

    def _perform_end(self, decision: Over) -> Observation:
        """Store an end before reporting it, because the cluster forgets its objects."""
        if decision.takes_claim:
            spool.take_claim(self.folder)
        if not decision.is_written:
            attempt_files.keep_end(self.folder, decision.end)
        self.must_end = True
        return cluster_end.compose_end(self.key, self.folder, self.records, decision.end)

    def _perform_withdrawal(self, decision: Withdraw) -> Observation:
        """Store the end for which the JobSet will be deleted; the attempt still runs."""
        if not self.is_read_only:
            attempt_files.keep_withdrawn(self.folder, decision.end)
            self.must_end = True
        return self._report_running()

    def _perform_lookup(self, facts: KubernetesFacts) -> Observation:
        """Let the worker look for the JobSet; until then, the attempt is as it was."""
        self.wants_lookup = True
        if self.records.began is not None:
            return self._report_running()
        waits = reasons.explain_created(facts)
        return Observation(key=self.key, phase=Phase.WAITING, waits=waits)

    def _report_running(self) -> Observation:
        """Return the observation from the records, but without their end, which may not count.

        The scheduler places pod by pod; seats are reported once, when all replicas have one.
        """
        observation = observe.compose_observation(self.key, replace(self.records, ended=None))
        is_placed = len(self._nodes) == self._replica_count
        return observation._replace(placed=self.seats if is_placed else ())

    def _follow_nodes(self, pods: tuple[PodFacts, ...]) -> None:
        """Store the nodes of the pods: pods may be deleted before the end is observed."""
        nodes = tuple(ReplicaNode(pod.role, pod.index, pod.node) for pod in pods if pod.node)
        if nodes == self._nodes or len(nodes) < len(self._nodes):
            return
        self._nodes = nodes
        if not self.is_read_only:
            attempt_files.keep_nodes(self.folder, nodes)

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The nodes of the replicas, as they were last known."""
        return tuple(
            Seat(role=_ROLES[row.role], index=row.number, node=row.node, engine=self.engine)
            for row in self._nodes
            if row.role in _ROLES
        )

    def is_leaving(self) -> bool:
        """Return whether the launcher recorded the end just now, so its pods end by themselves."""
        if self.records.ended is None:
            return False
        with suppress(OSError):
            written_s = os.lstat(self.folder.records).st_mtime
            return self._moments.age_s("records", written_s) < SETTLE_S
        return False

    def is_settled(self) -> bool:
        """Return whether the API would list the JobSet by now, if it existed."""
        return self.submitted is not None and not self._is_new()
