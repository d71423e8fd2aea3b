"""Garbage collection: dependents of removed owners, foreground deletions, namespaces that end."""

import queue
import threading
from contextlib import suppress
from typing import Any

from .kinds import BY_KIND
from .statuses import ApiError, NotFound
from .store import FOREGROUND, ORPHAN, Store

Body = dict[str, Any]
#: How long ``stop`` waits for the thread, in seconds.
_STOP_S = 60.0


class GarbageCollector:
    """One thread that follows the store; ``drain`` does its work in the caller's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._events: queue.SimpleQueue[tuple[str, Body] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._unsubscribe = store.subscribe(self._note)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="garbage-collector", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._unsubscribe()
        self._events.put(None)
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def drain(self) -> None:
        """Handle all events that are noted so far, and those that follow from them."""
        with suppress(queue.Empty):
            while event := self._events.get_nowait():
                self._handle(*event)

    def _note(self, happened: str, obj: Body) -> None:
        is_new_deletion = "deletionTimestamp" in obj["metadata"]
        has_owners = bool(obj["metadata"].get("ownerReferences"))
        if happened == "DELETED" or is_new_deletion or (happened == "ADDED" and has_owners):
            self._events.put((happened, obj))

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            self._handle(*event)

    def _handle(self, happened: str, obj: Body) -> None:
        with suppress(ApiError):
            if happened == "DELETED":
                self._finish(obj)
            elif happened == "ADDED":
                self._collect_orphan(obj)
            else:
                self._continue_deletion(obj)

    def _finish(self, obj: Body) -> None:
        """An object is gone: its dependents follow, its owners may be able to."""
        for dependent in self._store.list_dependents(obj["metadata"]["uid"]):
            self._delete_unless_owned(dependent)
        for owner in obj["metadata"].get("ownerReferences") or ():
            self._check_owner(owner, obj["metadata"].get("namespace"))
        if namespace := obj["metadata"].get("namespace"):
            self._finish_namespace(namespace)

    def _collect_orphan(self, obj: Body) -> None:
        """Remove an object that was created after its owner was gone."""
        owners = obj["metadata"]["ownerReferences"]
        if not any(self._is_present(obj, owner) for owner in owners):
            self._delete_unless_owned(obj)

    def _check_owner(self, owner: Body, namespace: str | None) -> None:
        if owner["kind"] not in BY_KIND:
            return
        with suppress(NotFound):
            is_namespaced = BY_KIND[owner["kind"]].is_namespaced
            obj = self._store.get(
                owner["kind"], namespace if is_namespaced else None, owner["name"]
            )
            if obj["metadata"]["uid"] == owner["uid"]:
                self._continue_deletion(obj)

    def _continue_deletion(self, obj: Body) -> None:
        finalizers = obj["metadata"].get("finalizers") or ()
        if "deletionTimestamp" not in obj["metadata"]:
            return
        if obj["kind"] == "Namespace":
            self._empty_namespace(obj["metadata"]["name"])
        elif FOREGROUND in finalizers:
            self._delete_in_foreground(obj)
        elif ORPHAN in finalizers:
            self._orphan(obj)

    def _delete_in_foreground(self, obj: Body) -> None:
        uid = obj["metadata"]["uid"]
        dependents = self._store.list_dependents(uid)
        blocking = [row for row in dependents if _is_blocked_by(row, uid)]
        for dependent in blocking:
            if "deletionTimestamp" not in dependent["metadata"]:
                has_own = bool(self._store.list_dependents(dependent["metadata"]["uid"]))
                self._delete(dependent, "Foreground" if has_own else "Background")
        if not blocking:
            self._remove_finalizer(obj, FOREGROUND)

    def _orphan(self, obj: Body) -> None:
        uid = obj["metadata"]["uid"]
        for dependent in self._store.list_dependents(uid):
            metadata = dependent["metadata"]

            def drop(row: Body) -> None:
                owners = [o for o in row["metadata"]["ownerReferences"] if o["uid"] != uid]
                row["metadata"]["ownerReferences"] = owners
                if not owners:
                    del row["metadata"]["ownerReferences"]

            self._store.modify(dependent["kind"], metadata.get("namespace"), metadata["name"], drop)
        self._remove_finalizer(obj, ORPHAN)

    def _delete_unless_owned(self, dependent: Body) -> None:
        owners = dependent["metadata"].get("ownerReferences") or ()
        if any(self._is_present(dependent, owner) for owner in owners):
            return
        self._delete(dependent, "Background")

    def _is_present(self, obj: Body, owner: Body) -> bool:
        if owner["kind"] not in BY_KIND:
            return True
        is_namespaced = BY_KIND[owner["kind"]].is_namespaced
        namespace = obj["metadata"].get("namespace") if is_namespaced else None
        try:
            row = self._store.get(owner["kind"], namespace, owner["name"])
        except NotFound:
            return False
        return bool(row["metadata"]["uid"] == owner["uid"])

    def _delete(self, obj: Body, propagation: str) -> None:
        metadata = obj["metadata"]
        with suppress(ApiError):
            self._store.delete(
                obj["kind"],
                metadata.get("namespace"),
                metadata["name"],
                uid=metadata["uid"],
                propagation=propagation,
            )

    def _remove_finalizer(self, obj: Body, finalizer: str) -> None:
        def drop(row: Body) -> None:
            finalizers = row["metadata"].get("finalizers", [])
            row["metadata"]["finalizers"] = [text for text in finalizers if text != finalizer]

        metadata = obj["metadata"]
        self._store.modify(obj["kind"], metadata.get("namespace"), metadata["name"], drop)

    def _empty_namespace(self, name: str) -> None:
        for resource in BY_KIND.values():
            if not resource.is_namespaced:
                continue
            rows, _ = self._store.list(resource.kind, name)
            for row in rows:
                if "deletionTimestamp" not in row["metadata"]:
                    self._delete(row, "Background")
        self._finish_namespace(name)

    def _finish_namespace(self, name: str) -> None:
        with suppress(NotFound):
            obj = self._store.get("Namespace", None, name)
            kinds = [row.kind for row in BY_KIND.values() if row.is_namespaced]
            if "deletionTimestamp" not in obj["metadata"]:
                return
            if any(self._store.list_records(kind, name)[0] for kind in kinds):
                return
            obj["spec"] = {}
            self._store.update(obj)


def _is_blocked_by(obj: Body, uid: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)
