"""The chain that every write passes: defaults, webhooks, validation, quota.

The tests' own webhooks are Python functions: they change the object in place, or refuse with a
sentence.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from .defaults import set_core_defaults
from .jobset_webhook import set_jobset_defaults, validate_changed_jobset, validate_new_jobset
from .kinds import BY_KIND
from .quota import check_limits, check_quotas, set_limit_defaults
from .schemas import load_schema, set_defaults
from .statuses import ApiError, Denied, Forbidden, NotFound
from .store import Store, Write
from .validation import validate_object

Body = dict[str, Any]
#: Changes an object in place; a text that it returns refuses the write.
Hook = Callable[[Body, Write], str | None]


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook of the tests, for writes of ``kinds`` by ``verbs`` (CREATE, UPDATE, DELETE)."""

    name: str
    call: Hook
    kinds: Collection[str]
    verbs: Collection[str] = ("CREATE",)

    def concerns(self, write: Write) -> bool:
        return write.resource.kind in self.kinds and write.verb in self.verbs


class AdmissionChain:
    """Admits the writes of a store; ``webhooks`` may be changed at any time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.webhooks: list[Webhook] = []

    def __call__(self, write: Write) -> Body | None:
        if write.new is None or write.subresource == "status":
            self._call_webhooks(write, write.new or write.old or {})
            return write.new
        obj = write.new
        if write.verb == "CREATE":
            self._set_defaults(write, obj)
        self._call_webhooks(write, obj)
        validate_object(write.resource, obj, write.old)
        self._validate(write, obj)
        return obj

    def _set_defaults(self, write: Write, obj: Body) -> None:
        resource = write.resource
        if schema := load_schema(resource, obj["apiVersion"].rpartition("/")[2]):
            if resource.kind == "JobSet" and isinstance(obj.get("spec"), dict):
                set_jobset_defaults(obj)
            set_defaults(schema, obj)
            return
        set_core_defaults(obj)
        if resource.kind == "Pod":
            set_limit_defaults(self._store, obj)
            self._set_priority(obj)

    def _set_priority(self, obj: Body) -> None:
        """Priority from the pod's class; an unknown class, account or runtime refuses the pod."""
        spec, namespace = obj["spec"], obj["metadata"]["namespace"]
        name = spec.get("priorityClassName", "")
        spec.setdefault("priority", 0)
        if name and not name.startswith("system-"):
            detail = f"no PriorityClass with name {name} was found"
            row = self._get_or_refuse(obj, "PriorityClass", None, name, detail)
            spec["priority"] = row["value"]
        account = spec["serviceAccountName"]
        if account != "default":
            detail = (
                f"error looking up service account {namespace}/{account}: "
                f'serviceaccount "{account}" not found'
            )
            self._get_or_refuse(obj, "ServiceAccount", namespace, account, detail)
        if runtime := spec.get("runtimeClassName"):
            detail = f'pod rejected: RuntimeClass "{runtime}" not found'
            self._get_or_refuse(obj, "RuntimeClass", None, runtime, detail)

    def _get_or_refuse(
        self, obj: Body, kind: str, namespace: str | None, name: str, detail: str
    ) -> Body:
        try:
            return self._store.get(kind, namespace, name)
        except NotFound:
            raise Forbidden(BY_KIND["Pod"], obj["metadata"]["name"], detail) from None

    def _call_webhooks(self, write: Write, obj: Body) -> None:
        for webhook in tuple(self.webhooks):
            if webhook.concerns(write) and (sentence := webhook.call(obj, write)):
                raise Denied(webhook.name, sentence)

    def _validate(self, write: Write, obj: Body) -> None:
        if write.resource.kind == "JobSet":
            if write.old is None:
                validate_new_jobset(obj)
            else:
                validate_changed_jobset(obj, write.old)
        if write.resource.kind == "Pod" and write.old is None:
            check_limits(self._store, obj)
        check_quotas(self._store, write)


__all__ = ["AdmissionChain", "ApiError", "Webhook"]
