"""Writes Events as components of a cluster do."""

import secrets
from contextlib import suppress

from k8s.emulator.controllers.objects import key_of, stamp, uid_of
from k8s.emulator.statuses import Conflict, NotFound

NORMAL, WARNING = "Normal", "Warning"
DEFAULT_NAMESPACE = "default"


class EventRecorder:
    """Repetitions of an event raise the count of the first one."""

    def __init__(self, store, clock):
        self._store, self._clock = store, clock
        self._names = {}

    def record(  # noqa: PLR0913 - the fields of an event
        self, obj, severity, reason, message, source, *, field_path=None
    ):
        row = (uid_of(obj), reason, message, source)
        with suppress(Conflict, NotFound):
            if row in self._names:
                return self._repeat(*self._names[row])
        words = {"type": severity, "reason": reason, "message": message}
        event = self._event(obj, {**words, "source": {"component": source}}, field_path)
        self._names[row] = key_of(event)
        return self._store.create(event)

    def _repeat(self, namespace, name):
        event = self._store.get("Event", namespace, name)
        now = stamp(self._clock.now_s())
        return self._store.update({**event, "count": event["count"] + 1, "lastTimestamp": now})

    def _event(self, obj, words, field_path):
        namespace, name = key_of(obj)
        now = stamp(self._clock.now_s())
        involved = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "namespace": namespace,
            "name": name,
            "uid": uid_of(obj),
            **({"fieldPath": field_path} if field_path else {}),
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{name}.{secrets.token_hex(8)}",
                "namespace": namespace or DEFAULT_NAMESPACE,
            },
            "involvedObject": {key: value for key, value in involved.items() if value},
            **words,
            "reportingComponent": words["source"]["component"],
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
