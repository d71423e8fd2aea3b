"""Copies of all objects for controllers to read, so that a reconcile does not list the store.

The store calls back after each write, in order; a controller whose copy is too old gets a conflict
when it writes.  Nobody may change what a cache returns.
"""

import threading
from collections import defaultdict

from k8s.emulator.controllers.objects import key_of, uid_of

KINDS = (
    *("JobSet", "Job", "Pod", "Service", "Node", "Secret", "PersistentVolumeClaim"),
    *(
        "ConfigMap",
        "LocalQueue",
        "ClusterQueue",
        "ResourceFlavor",
        "WorkloadPriorityClass",
        "Workload",
    ),
)


class ObjectCache:
    """Objects by kind and key, and dependents by the uid of their owner."""

    def __init__(self, store, kinds=KINDS):
        self._lock = threading.Lock()
        self._objects = {kind: {} for kind in kinds}
        self._dependents = defaultdict(set)
        store.subscribe(self._on_change)
        for kind in kinds:
            for obj in store.list(kind)[0]:
                self._on_change("ADDED", obj)

    def get(self, kind, key):
        """An object, or None."""
        with self._lock:
            return self._objects[kind].get(tuple(key))

    def all_of(self, kind):
        with self._lock:
            return list(self._objects[kind].values())

    def owned_by(self, owner, kind):
        """Dependents of a kind, oldest first."""
        with self._lock:
            keys = [key for name, key in self._dependents.get(uid_of(owner), ()) if name == kind]
            rows = [self._objects[kind][key] for key in keys if key in self._objects[kind]]
        return sorted(rows, key=lambda obj: (obj["metadata"]["creationTimestamp"], key_of(obj)))

    def _on_change(self, change, obj):
        kind, key = obj["kind"], key_of(obj)
        if kind not in self._objects:
            return
        with self._lock:
            if change == "DELETED":
                self._objects[kind].pop(key, None)
            else:
                self._objects[kind][key] = obj
            for owner in obj["metadata"].get("ownerReferences") or ():
                dependents = self._dependents[owner["uid"]]
                (dependents.discard if change == "DELETED" else dependents.add)((kind, key))
