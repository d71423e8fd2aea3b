"""Keeps the objects of the attempts of one installation, as the API's watches last showed them.

A watcher reports each change of an object; the index finds the objects of one attempt without a
search.  The thread of a watcher writes, and every thread may read.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trainshed.engines.kubernetes import names
from trainshed.engines.kubernetes.api.objects import ObjectChange
from trainshed.engines.kubernetes.state import objects
from trainshed.engines.kubernetes.state.facts import (
    EventFacts,
    JobSetFacts,
    PodFacts,
    WorkloadFacts,
)
from trainshed.model.attempt import AttemptKey

JOBSET, POD, EVENT, WORKLOAD = "JobSet", "Pod", "Event", "Workload"
_NO_OBJECTS: Final[Mapping[str, Any]] = {}


class AttemptObjects(NamedTuple):
    """The objects of one attempt, read from the API's last answers."""

    jobset: JobSetFacts | None = None
    """The JobSet with the uid of the submission; None: there is none."""
    successor: str = ""
    """The uid of another JobSet that has the name now; empty: there is none."""
    pods: tuple[PodFacts, ...] = ()
    events: tuple[EventFacts, ...] = ()
    workload: WorkloadFacts | None = None


class ObjectIndex:
    """The objects of one kind after the other, by the attempt to which they belong."""

    def __init__(self, installation: str) -> None:
        """``installation`` is the id in the labels and names of the objects to keep."""
        self._installation = installation
        self._lock = threading.Lock()
        self._by_key: dict[str, defaultdict[AttemptKey, dict[str, Mapping[str, Any]]]] = {
            kind: defaultdict(dict) for kind in (JOBSET, POD, EVENT, WORKLOAD)
        }
        self._changes = 0
        self._versions: dict[AttemptKey, int] = {}

    def update(self, kind: str, changes: Sequence[ObjectChange]) -> set[AttemptKey]:
        """Store changed objects, and drop deleted ones; return the attempts that they concern."""
        with self._lock:
            keys = {self._update_one(self._by_key[kind], kind, change) for change in changes}
            changed = {key for key in keys if key is not None}
            for key in changed:
                self._note_change(key)
        return changed

    def _note_change(self, key: AttemptKey) -> None:
        """Give an attempt a version that it never had; forget it with its last object."""
        self._changes += 1
        if any(key in by_key for by_key in self._by_key.values()):
            self._versions[key] = self._changes
        else:
            self._versions.pop(key, None)

    def _update_one(
        self,
        by_key: dict[AttemptKey, dict[str, Mapping[str, Any]]],
        kind: str,
        change: ObjectChange,
    ) -> AttemptKey | None:
        key = find_key(kind, change.value, self._installation)
        if key is None:
            return None
        rows = by_key[key]
        if change.is_deleted:
            rows.pop(change.uid, None)
        else:
            rows[change.uid] = change.value
        if not rows:
            del by_key[key]
        return key

    def owns(self, kind: str, obj: Mapping[str, Any]) -> bool:
        """Return whether an object belongs to an attempt of the installation."""
        return find_key(kind, obj, self._installation) is not None

    def version(self, key: AttemptKey) -> int:
        """Return a number that differs after each change of an object; 0: there is no object."""
        return self._versions.get(key, 0)

    def list_keys(self) -> Collection[AttemptKey]:
        """List the attempts that have a JobSet or a pod."""
        with self._lock:
            return {*self._by_key[JOBSET], *self._by_key[POD]}

    def list_jobsets(self, key: AttemptKey) -> list[JobSetFacts]:
        """List the JobSets with the labels of an attempt: several only while one is deleted."""
        with self._lock:
            rows = list(self._by_key[JOBSET].get(key, _NO_OBJECTS).values())
        return [objects.read_jobset(row) for row in rows]

    def list_pods(self, key: AttemptKey) -> list[PodFacts]:
        """List all pods with the labels of an attempt."""
        with self._lock:
            rows = list(self._by_key[POD].get(key, _NO_OBJECTS).values())
        return [objects.read_pod(row) for row in rows]

    def find(self, key: AttemptKey, name: str, uid: str, claimant: str) -> AttemptObjects:
        """Return the objects of an attempt.

        ``name`` and ``uid`` are those of its JobSet; ``claimant`` is the uid of the pod that began
        the attempt, or empty.
        """
        with self._lock:
            rows = {
                kind: list(by_key.get(key, _NO_OBJECTS).values())
                for kind, by_key in self._by_key.items()
            }
        jobsets = [objects.read_jobset(row) for row in rows[JOBSET]]
        return AttemptObjects(
            jobset=next((jobset for jobset in jobsets if jobset.uid == uid), None),
            successor=next(
                (jobset.uid for jobset in jobsets if jobset.name == name and jobset.uid != uid), ""
            ),
            pods=objects.read_pods(rows[POD], uid, claimant),
            events=objects.read_events(rows[EVENT], name),
            workload=objects.find_workload(rows[WORKLOAD], uid),
        )


_KeyOf = Callable[[Mapping[str, Any], str], AttemptKey | None]


def find_key(kind: str, obj: Mapping[str, Any], installation: str) -> AttemptKey | None:
    """Return the attempt to which an object belongs; None: to no attempt of the installation."""
    return _KEY_OF[kind](obj, installation)


def _key_by_labels(obj: Mapping[str, Any], installation: str) -> AttemptKey | None:
    labels = (obj.get("metadata") or {}).get("labels") or {}
    return names.key_of(labels, installation)


def _key_by_target(obj: Mapping[str, Any], installation: str) -> AttemptKey | None:
    target = obj.get("involvedObject") or {}
    return names.key_of_name(str(target.get("name", "")), installation)


def _key_by_owner(obj: Mapping[str, Any], installation: str) -> AttemptKey | None:
    owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
    keys = (names.key_of_name(str(owner.get("name", "")), installation) for owner in owners)
    return next((key for key in keys if key is not None), None)


_KEY_OF: Final[Mapping[str, _KeyOf]] = {
    JOBSET: _key_by_labels,
    POD: _key_by_labels,
    EVENT: _key_by_target,
    WORKLOAD: _key_by_owner,
}
