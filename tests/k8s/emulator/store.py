"""Objects of the emulator with their versions: what etcd and the registry of an API server do.

Objects are plain dicts with ``apiVersion`` and ``kind``.  A caller always gets a copy of its own.
Every write runs the admission chain first, also a controller's: quota refuses a Job's pods as it
refuses a user's.  Kinds, not URLs, name objects here; the HTTP server translates.
"""

import json
import random
import threading
import time
import traceback
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .history import Happening, History, Record
from .kinds import BY_KIND, Resource
from .selectors import match_fields, match_labels, parse_selector
from .statuses import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from .writes import (
    Key,
    check_delete,
    check_preconditions,
    compute_grace_s,
    get_key,
    get_resource,
    is_new_spec,
    merge_write,
)

__all__ = ["AlreadyExists", "ApiError", "Conflict", "Forbidden", "Invalid", "NotFound", "Store"]

Body = dict[str, Any]
Bodies = list[Body]
Records = list[Record]
Callback = Callable[[str, Body], None]
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
FIRST_NAMESPACES = ("default", "kube-system", "kube-public")
_FINALIZERS = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
#: The letters of generated names: no vowels, so that no words come out.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE = 58


@dataclass(frozen=True, slots=True)
class Write:
    """One write as admission sees it; ``old`` is None for a create, ``new`` None for a delete."""

    verb: str
    resource: Resource
    new: Body | None
    old: Body | None = None
    subresource: str = ""
    user: str = ""
    is_dry_run: bool = False


Admission = Callable[[Write], Body | None]


class Store:
    """All objects.  Each write gets a resourceVersion; ``history_limit`` events a kind stay."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        history_limit: int = 10_000,
        admit: Admission | None = None,
    ) -> None:
        self.clock = clock
        self.admit: Admission = admit or (lambda write: write.new)
        self.lock = threading.RLock()
        self.history = History(self.lock, history_limit)
        self._random = random.Random(uuid.uuid4().int)  # noqa: S311 - names, no secrets
        self._objects: dict[str, dict[Key, Record]] = {kind: {} for kind in BY_KIND}
        self._owned: defaultdict[str, set[tuple[str, Key]]] = defaultdict(set)
        self._callbacks: list[Callback] = []
        self._undelivered: deque[Happening] = deque()
        self._delivery = threading.Lock()
        self._depth = 0
        for name in FIRST_NAMESPACES:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    @property
    def resource_version(self) -> int:
        """The version of the last write."""
        return self.history.version

    def create(self, obj: Body, *, user: str = "", dry_run: bool = False) -> Body:
        """Store a new object; AlreadyExists, NotFound (namespace), Invalid or Forbidden refuse."""
        resource = get_resource(obj["kind"])
        with self.hold():
            new = self._prepare_new(resource, obj)
            new = self.admit(Write("CREATE", resource, new, None, "", user, dry_run)) or new
            key = get_key(resource, new)
            self._refuse_present(resource, key)
            if dry_run:
                return new
            return self._put(resource, key, new, "ADDED", None).load()

    def update(
        self, obj: Body, *, subresource: str = "", user: str = "", dry_run: bool = False
    ) -> Body:
        """Replace an object, or with ``status`` its status alone.

        A ``resourceVersion`` in it must be the current one (Conflict).  An update that changes
        nothing is no write.  ``binding`` sets ``spec.nodeName`` of a pod, which nothing else may.
        """
        resource = get_resource(obj["kind"])
        with self.hold():
            old = self._find(resource, get_key(resource, obj))
            before = old.load()
            check_preconditions(resource, before, obj)
            new = merge_write(resource, before, obj, subresource)
            write = Write("UPDATE", resource, new, before, subresource, user, dry_run)
            new = self.admit(write) or new
            if new == before or dry_run:
                return new
            if resource.has_generation and subresource == "" and is_new_spec(new, before):
                new["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
            return self._replace(resource, new, old).load()

    def modify(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        change: Callable[[Body], None],
        *,
        subresource: str = "",
    ) -> Body:
        """Apply ``change`` to the current object and store it, in one step."""
        with self.hold():
            obj = self.get(kind, namespace, name)
            change(obj)
            return self.update(obj, subresource=subresource)

    def delete(  # noqa: PLR0913 - the options of a deletion
        self,
        kind: str,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "",
        grace_s: int | None = None,
        user: str = "",
        dry_run: bool = False,
    ) -> Body:
        """Remove an object, or mark it while finalizers or a pod's grace period hold it.

        ``propagation`` is Foreground, Background or Orphan; empty is Foreground for objects that
        have dependents.  A marked object comes back with ``deletionTimestamp``; a removed one comes
        back without.  Conflict means that ``uid`` or ``resource_version`` is not the object's.
        """
        resource = get_resource(kind)
        with self.hold():
            record = self._find(resource, (namespace or "", name))
            obj = record.load()
            check_delete(resource, obj, uid, resource_version)
            self.admit(Write("DELETE", resource, None, obj, "", user, dry_run))
            if dry_run:
                return obj
            return self._delete(resource, record, propagation, grace_s)

    def get(self, kind: str, namespace: str | None, name: str) -> Body:
        """Return a copy of an object; NotFound where it is absent."""
        with self.lock:
            return self._find(get_resource(kind), (namespace or "", name)).load()

    def list(
        self, kind: str, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[Bodies, str]:
        """Copies of the objects of a kind by namespace and name, and the store's version."""
        records, version = self.list_records(kind, namespace, selector, fields)
        return [record.load() for record in records], str(version)

    def list_records(
        self, kind: str, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[Records, int]:
        """As ``list``, without copies: their objects are shared and must not be changed."""
        labels = parse_selector(selector)
        with self.lock:
            rows = sorted(self._objects[get_resource(kind).kind].items())
            version = self.history.version
        records = [
            record
            for (space, _), record in rows
            if (not namespace or space == namespace)
            and match_labels(labels, record.shared)
            and match_fields(kind, fields, record.shared)
        ]
        return records, version

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call ``callback(type, object)`` after every write, in order, outside the lock.

        It runs in the thread of a writer, so it only notes what to do.  The result ends it.
        """
        with self.lock:
            self._callbacks.append(callback)

        def end() -> None:
            with self.lock, suppress(ValueError):
                self._callbacks.remove(callback)

        return end

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep others from writing; what the block wrote goes to subscribers after it."""
        is_outermost = False
        try:
            with self.lock:
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1
                    is_outermost = self._depth == 0
        finally:
            if is_outermost:
                self._deliver()

    def _prepare_new(self, resource: Resource, obj: Body) -> Body:
        new = json.loads(json.dumps(obj))
        metadata = new.setdefault("metadata", {})
        if not resource.is_namespaced:
            metadata.pop("namespace", None)
        elif metadata.setdefault("namespace", "default"):
            self._check_namespace(resource, metadata)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generate_name(resource, metadata)
        for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self.read_time()
        if resource.has_generation:
            metadata["generation"] = 1
        if resource.has_status and resource.kind != "Node":
            new.pop("status", None)
        if resource.kind == "Namespace":
            new["spec"] = {"finalizers": ["kubernetes"]}
            new["status"] = {"phase": "Active"}
            metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
        return new

    def _generate_name(self, resource: Resource, metadata: Body) -> str:
        names = self._objects[resource.kind]
        while True:
            letters = "".join(self._random.choices(_LETTERS, k=5))
            name = metadata["generateName"][:_GENERATED_BASE] + letters
            if (metadata.get("namespace", ""), name) not in names:
                return name

    def _check_namespace(self, resource: Resource, metadata: Body) -> None:
        name = metadata["namespace"]
        record = self._objects["Namespace"].get(("", name))
        if record is None:
            raise NotFound(BY_KIND["Namespace"], name)
        if record.shared["metadata"].get("deletionTimestamp"):
            detail = (
                f"unable to create new content in namespace {name} because it is being terminated"
            )
            raise Forbidden(resource, metadata.get("name", ""), detail)

    def _refuse_present(self, resource: Resource, key: Key) -> None:
        present = self._objects[resource.kind].get(key)
        if present is not None:
            is_deleted = "deletionTimestamp" in present.shared["metadata"]
            raise AlreadyExists(resource, key[1], is_deleted=is_deleted)

    def _find(self, resource: Resource, key: Key) -> Record:
        record = self._objects[resource.kind].get(key)
        if record is None:
            raise NotFound(resource, key[1])
        return record

    def _put(
        self, resource: Resource, key: Key, obj: Body, happened: str, old: Record | None
    ) -> Record:
        version = self.history.take_version()
        obj["metadata"]["resourceVersion"] = str(version)
        record = Record(version, obj)
        if happened == "DELETED":
            del self._objects[resource.kind][key]
        else:
            self._objects[resource.kind][key] = record
        self._note_owners((resource.kind, key), record, is_gone=happened == "DELETED")
        happening = Happening(version, happened, record, old)
        self.history.add(resource.kind, happening)
        self._undelivered.append(happening)
        return record

    def _replace(self, resource: Resource, new: Body, old: Record) -> Record:
        """Store a changed object; where nothing holds its deletion any more, remove it."""
        key = get_key(resource, new)
        metadata = new["metadata"]
        if not metadata.get("finalizers"):
            metadata.pop("finalizers", None)
        is_held = (
            metadata.get("finalizers")
            or metadata.get("deletionGracePeriodSeconds")
            or (resource.kind == "Namespace" and new.get("spec", {}).get("finalizers"))
        )
        if "deletionTimestamp" in metadata and not is_held:
            return self._put(resource, key, new, "DELETED", old)
        return self._put(resource, key, new, "MODIFIED", old)

    def _delete(
        self, resource: Resource, record: Record, propagation: str, grace_s: int | None
    ) -> Body:
        obj = record.load()
        metadata = obj["metadata"]
        grace = compute_grace_s(resource, obj, grace_s)
        finalizers = list(metadata.get("finalizers", []))
        if not propagation and self._owned.get(metadata["uid"]):
            propagation = "Foreground"
        finalizer = _FINALIZERS.get(propagation)
        if finalizer and finalizer not in finalizers:
            finalizers.append(finalizer)
        if resource.kind == "Namespace" and obj["status"]["phase"] == "Active":
            obj["status"] = {"phase": "Terminating"}
        is_held = bool(finalizers) or grace > 0 or bool(obj.get("spec", {}).get("finalizers"))
        if not is_held:
            removed = self._put(resource, get_key(resource, obj), obj, "DELETED", record).load()
            removed["metadata"].pop("deletionTimestamp", None)
            return removed
        if finalizers:
            metadata["finalizers"] = finalizers
        self._mark(resource, obj, grace)
        if obj == record.shared:
            return obj
        return self._put(resource, get_key(resource, obj), obj, "MODIFIED", record).load()

    def _mark(self, resource: Resource, obj: Body, grace: int) -> None:
        """Set the deletion's time; a later one may only shorten it."""
        metadata = obj["metadata"]
        old = metadata.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in metadata and (old is None or grace >= old):
            return
        if resource.has_generation and "deletionTimestamp" not in metadata:
            metadata["generation"] = metadata.get("generation", 0) + 1
        metadata["deletionTimestamp"] = self.read_time(grace)
        metadata["deletionGracePeriodSeconds"] = grace

    def _note_owners(self, row: tuple[str, Key], record: Record, *, is_gone: bool) -> None:
        for owner in record.shared["metadata"].get("ownerReferences") or ():
            if is_gone:
                self._owned[owner["uid"]].discard(row)
            else:
                self._owned[owner["uid"]].add(row)

    def list_dependents(self, uid: str) -> Bodies:
        """Copies of the objects that name ``uid`` as an owner."""
        with self.lock:
            rows = sorted(self._owned.get(uid, ()))
            records = [self._objects[kind].get(key) for kind, key in rows]
            return [
                record.load()
                for record in records
                if record is not None
                and any(
                    o["uid"] == uid for o in record.shared["metadata"].get("ownerReferences", ())
                )
            ]

    def read_time(self, later_s: float = 0.0) -> str:
        """The clock's time, with ``later_s`` added, as objects have it: whole seconds, UTC."""
        moment = datetime.fromtimestamp(self.clock() + later_s, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _deliver(self) -> None:
        """Hand out events in order; a writer whose events another hands out does not wait."""
        while self._undelivered and self._delivery.acquire(blocking=False):
            try:
                while self._undelivered:
                    self._call(self._undelivered.popleft())
            finally:
                self._delivery.release()

    def _call(self, happening: Happening) -> None:
        with self.lock:
            callbacks = tuple(self._callbacks)
        for callback in callbacks:
            try:
                callback(happening.type, happening.record.load())
            except Exception:  # noqa: BLE001 - a subscriber's mistake is not the writer's
                traceback.print_exc()
