"""The current objects of one kind by uid, and what changed: no input or output."""

import sys
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

#: Texts of at most this length are stored once, however many objects have them.
_SHARED_LENGTH_MAX: Final = 64


class ObjectChange(NamedTuple):
    """One object that appeared, changed or went."""

    uid: str
    value: Mapping[str, Any]
    """The trimmed object; of a deleted one its last state, with the exit codes of a Pod."""
    is_deleted: bool = False


class ObjectStore:
    """Trimmed objects by uid; one thread writes, all threads read."""

    def __init__(self) -> None:
        """Create an empty store."""
        self._lock = threading.Lock()
        self._objects: dict[str, Mapping[str, Any]] = {}
        self._snapshot: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
        self._is_current = True

    def read(self) -> Mapping[str, Mapping[str, Any]]:
        """Return all objects; later changes are not in this value."""
        with self._lock:
            if not self._is_current:
                self._snapshot = MappingProxyType(dict(self._objects))
                self._is_current = True
            return self._snapshot

    def set(self, uid: str, value: Mapping[str, Any]) -> list[ObjectChange]:
        """Store an object; return the change, or nothing if it is equal to the stored one."""
        with self._lock:
            if self._objects.get(uid) == value:
                return []
            self._objects[uid] = value
            self._is_current = False
        return [ObjectChange(uid, value)]

    def remove(self, uid: str, value: Mapping[str, Any]) -> list[ObjectChange]:
        """Remove an object; ``value``: its last state."""
        with self._lock:
            if self._objects.pop(uid, None) is None:
                return []
            self._is_current = False
        return [ObjectChange(uid, value, is_deleted=True)]

    def replace(self, values: Mapping[str, Mapping[str, Any]]) -> list[ObjectChange]:
        """Store exactly these objects; return what changed, with the objects that are gone."""
        with self._lock:
            before, after = self._objects, dict(values)
            for uid in after.keys() & before.keys():
                if after[uid] == before[uid]:
                    after[uid] = before[uid]
            self._objects = after
            self._is_current = False
        gone = [
            ObjectChange(uid, value, is_deleted=True)
            for uid, value in before.items()
            if uid not in after
        ]
        return gone + [
            ObjectChange(uid, value) for uid, value in after.items() if value is not before.get(uid)
        ]


def share_texts(value: Any) -> Any:
    """Copy a JSON value; equal short texts become one, which halves the memory of many objects."""
    if isinstance(value, str):
        return sys.intern(value) if len(value) <= _SHARED_LENGTH_MAX else value
    if isinstance(value, list):
        return [share_texts(element) for element in value]
    if isinstance(value, Mapping):
        return {sys.intern(name): share_texts(inner) for name, inner in value.items()}
    return value
