"""Watches the cluster for one engine: its objects, and whether the API answers.

JobSets, pods and events must be readable.  Workloads exist only where Kueue is installed, and nodes
only where the server's account may read them: without them the engine says less, and works.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from trainshed.engines.kubernetes import names, nodes, paths, start_check
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import ApiAway
from trainshed.engines.kubernetes.api.objects import ObjectChange
from trainshed.engines.kubernetes.api.progress import Pacing
from trainshed.engines.kubernetes.api.watch import Watcher
from trainshed.engines.kubernetes.attempt_files import SubmissionRecord
from trainshed.engines.kubernetes.gpus import GpuRow
from trainshed.engines.kubernetes.objects import (
    EVENT,
    JOBSET,
    POD,
    WORKLOAD,
    AttemptObjects,
    ObjectIndex,
)
from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.kubernetes.repeated_check import RepeatedCheck
from trainshed.engines.kubernetes.start_check import ClusterFacts
from trainshed.engines.kubernetes.state import objects
from trainshed.engines.kubernetes.state.facts import JobSetFacts, PodFacts
from trainshed.model.attempt import AttemptKey
from trainshed.model.explanation import Explanation, Reason

#: The kinds without which an engine cannot work.
_REQUIRED: Final = (JOBSET, POD, EVENT)
_NODE: Final = "Node"
#: Two thirds of all events say that a container runs, or that a Job made a pod, as pods show.
_NEEDED_EVENTS: Final = "reason!=Created,reason!=Started,reason!=SuccessfulCreate"
#: Seconds for which a caller waits for the first lists.
_SYNC_S: Final = 10.0
#: Seconds before a repetition after the API refused a kind that is required.
_DENIED_S: Final = 5.0


class WatchedCluster:
    """The last known state of one namespace of a cluster.  Thread-safe."""

    def __init__(
        self, client: Client, options: KubernetesOptions, namespace: str, installation: str
    ) -> None:
        """Start no thread and send no request; ``start`` does."""
        self._client = client
        self._options = options
        self.namespace = namespace
        self._index = ObjectIndex(installation)
        self._pacing = Pacing(floor_s=options.poll_s)
        self._check = RepeatedCheck(
            partial(start_check.read_facts, client, options, namespace),
            is_denied=lambda: any(watcher.is_denied for watcher in self._watchers.values()),
            on_facts=self._take_facts,
        )
        selector = names.selector_of(installation)
        required = self._pacing._replace(denied_s=_DENIED_S)
        self._watchers = {
            JOBSET: self._make_watcher(JOBSET, paths.jobsets(namespace), selector, required),
            POD: self._make_watcher(POD, paths.pods(namespace), selector, required),
            EVENT: self._make_watcher(
                EVENT, paths.events(namespace), "", required, fields=_NEEDED_EVENTS
            ),
        }
        self._nodes = Watcher(
            client, paths.NODES, "", nodes.trim_node, self._take_nodes, pacing=self._pacing
        )
        self._ready_nodes: Mapping[str, bool] | None = None
        self._nodes_version = 0
        self._workloads: Watcher | None = None
        self._is_started = False
        self._is_closed = False
        self._starting = threading.Lock()
        self.on_change: Callable[[Collection[AttemptKey]], None] = lambda _: None
        """The function to call with the attempts whose objects have changed."""

    def start(self) -> None:
        """Start the threads, unless they run."""
        with self._starting:
            if self._is_started or self._is_closed:
                return
            self._is_started = True
            for watcher in (*self._watchers.values(), self._nodes):
                watcher.start()
            self._check.start()

    def close(self) -> None:
        """End the threads and connections."""
        with self._starting:
            self._is_closed = True
            optional = [self._workloads] if self._workloads else []
        self._client.close()
        for watcher in (*self._watchers.values(), self._nodes, *optional):
            watcher.close()
        self._check.close()

    def sync(self) -> None:
        """Wait for the first lists.  Raises OSError if the API does not answer."""
        self.start()
        deadline_s = time.monotonic() + _SYNC_S
        for watcher in self._watchers.values():
            if not watcher.wait_synced(max(0.0, deadline_s - time.monotonic())):
                raise ApiAway(watcher.reason or "the API server has not answered yet")
        if (why := self._explain_away()) is not None:
            raise ApiAway(why.message)

    def health(self) -> Explanation | None:
        """Explain since when the cluster cannot run jobs; None: it can, or is not checked yet."""
        away = self._explain_away()
        is_denied = any(watcher.is_denied for watcher in self._watchers.values())
        if not self._check.trouble or (away is not None and not is_denied):
            return away
        since = _describe_time(self._check.since_s)
        text = f"the cluster cannot run jobs since {since}: {self._check.trouble}"
        return Explanation(reason=Reason.ENGINE_AWAY, message=text)

    def _explain_away(self) -> Explanation | None:
        """Explain since when the API gives no usable answer; None: it does, or starts to."""
        since = {
            kind: watcher.away_since_s
            for kind, watcher in self._watchers.items()
            if watcher.away_since_s is not None
        }
        if not since:
            return None
        kind = min(since, key=lambda name: since[name])
        reason = self._watchers[kind].reason
        return Explanation(
            reason=Reason.ENGINE_AWAY,
            message=f"the cluster has not listed {kind}s of {self.namespace} since "
            f"{_describe_time(since[kind])}: {reason}",
        )

    @property
    def is_away(self) -> bool:
        """Whether the API does not answer now."""
        return any(watcher.away_since_s is not None for watcher in self._watchers.values())

    @property
    def is_synced(self) -> bool:
        """Whether every list was answered since the start and since the API was away."""
        return not self.is_away and all(watcher.is_synced for watcher in self._watchers.values())

    @property
    def has_kueue(self) -> bool:
        """Whether the API serves Workloads, or may serve them."""
        facts = self._check.facts
        return facts is None or facts.kueue_versions != ()

    @property
    def reads_workloads(self) -> bool:
        """Whether the server may read Workloads."""
        return self._workloads is None or not self._workloads.is_denied

    @property
    def facts(self) -> ClusterFacts | None:
        """The facts of the last check of the cluster; None: it is not checked yet."""
        return self._check.facts

    @property
    def missing_queues(self) -> Collection[str]:
        """The LocalQueues of the settings that the namespace did not have at the last check."""
        return self._check.facts.missing_queues if self._check.facts else ()

    @property
    def nodes(self) -> Mapping[str, bool] | None:
        """Whether each node is ready, by name; None: the server may not read nodes."""
        return self._ready_nodes

    def find(
        self, key: AttemptKey, submitted: SubmissionRecord | None, claimant: str
    ) -> AttemptObjects:
        """Return the objects of an attempt; ``claimant`` is the uid of the pod that began it."""
        if submitted is None:
            return AttemptObjects()
        return self._index.find(key, submitted.name, submitted.uid, claimant)

    def version(self, key: AttemptKey) -> tuple[object, ...]:
        """Return values that differ after each change of an object of the attempt."""
        return (self._index.version(key), self._nodes_version, self.is_away, self.is_synced)

    def list_keys(self) -> Collection[AttemptKey]:
        """List the attempts that have a JobSet or a pod."""
        return self._index.list_keys()

    def list_jobsets(self, key: AttemptKey) -> list[JobSetFacts]:
        """List the JobSets with the labels of an attempt."""
        return self._index.list_jobsets(key)

    def list_pods(self, key: AttemptKey) -> list[PodFacts]:
        """List all pods with the labels of an attempt."""
        return self._index.list_pods(key)

    def list_node_objects(self) -> Collection[Mapping[str, Any]]:
        """List the nodes as the API last showed them; none if they cannot be read."""
        return self._nodes.objects.values()

    def list_gpu_rows(self) -> Mapping[str, GpuRow]:
        """Return the rows of GPUs of the settings, and those that labels of nodes give."""
        return nodes.list_rows(self._options, self.list_node_objects())

    def _make_watcher(
        self, kind: str, path: str, selector: str, pacing: Pacing, *, fields: str = ""
    ) -> Watcher:
        trim, take = partial(self._trim, kind), partial(self._take_changes, kind)
        return Watcher(self._client, path, selector, trim, take, fields=fields, pacing=pacing)

    def _trim(self, kind: str, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Trim an object; None: it belongs to no attempt of this installation."""
        trimmed = objects.trim_object(kind, obj)
        return trimmed if self._index.owns(kind, trimmed) else None

    def _take_changes(self, kind: str, changes: Sequence[ObjectChange]) -> None:
        if keys := self._index.update(kind, changes):
            self.on_change(keys)

    def _take_nodes(self, _changes: Sequence[ObjectChange]) -> None:
        ready = objects.read_nodes(self._nodes.objects.values())
        if ready != self._ready_nodes:
            self._ready_nodes = ready
            self._nodes_version += 1
            self.on_change(self._index.list_keys())

    def _take_facts(self, facts: ClusterFacts) -> None:
        """Watch Workloads in the newest version that the API serves."""
        if self._workloads is not None or not facts.kueue_versions:
            return
        version = start_check.choose_kueue_version(facts.kueue_versions)
        path = paths.workloads(self.namespace, version)
        with self._starting:
            if not self._is_closed:
                self._workloads = self._make_watcher(WORKLOAD, path, "", self._pacing)
                self._workloads.start()


def _describe_time(since_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(since_s))
