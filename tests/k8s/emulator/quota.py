"""ResourceQuota and LimitRange: what a namespace may hold, and amounts that containers get."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

from .defaults import list_containers
from .kinds import BY_KIND, Resource
from .quantities import parse_quantity, write_quantity
from .statuses import Forbidden, NotFound
from .store import Store, Write

Body = dict[str, Any]
Amounts = dict[str, Fraction]
_COUNTED = {
    "pods": "Pod",
    "secrets": "Secret",
    "services": "Service",
    "configmaps": "ConfigMap",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "resourcequotas": "ResourceQuota",
}
_BINARY = ("memory", "storage")


def check_quotas(store: Store, write: Write) -> None:
    """Raise Forbidden where a new object does not fit into a quota of its namespace."""
    obj = write.new
    if write.verb != "CREATE" or obj is None or not write.resource.is_namespaced:
        return
    quotas, _ = store.list("ResourceQuota", obj["metadata"]["namespace"])
    for quota in quotas:
        _check_quota(store, quota, write.resource, obj)


def _check_quota(store: Store, quota: Body, resource: Resource, obj: Body) -> None:
    hard = {name: parse_quantity(text) for name, text in _read_hard(quota).items()}
    requested = _select(measure(resource, obj), hard)
    if not requested and resource.kind != "Pod":
        return
    name = obj["metadata"]["name"]
    if missing := list(_list_unspecified(resource, obj, hard)):
        detail = f"failed quota: {quota['metadata']['name']}: must specify {'; '.join(missing)}"
        raise Forbidden(resource, name, detail)
    used = measure_namespace(store, quota["metadata"]["namespace"], hard)
    exceeded = sorted(key for key in requested if used[key] + requested[key] > hard[key])
    if exceeded:
        detail = (
            f"exceeded quota: {quota['metadata']['name']}, requested: "
            f"{_join(requested, exceeded)}, used: {_join(used, exceeded)}, "
            f"limited: {_join(hard, exceeded)}"
        )
        raise Forbidden(resource, name, detail)


def _read_hard(quota: Body) -> Mapping[str, str]:
    return quota.get("spec", {}).get("hard") or {}


def _list_unspecified(resource: Resource, obj: Body, hard: Amounts) -> Iterator[str]:
    """Containers that must name an amount because a quota counts it."""
    if resource.kind != "Pod":
        return
    for name in sorted(hard):
        group, _, item = name.rpartition(".") if name.count(".") == 1 else ("", "", name)
        if item not in ("cpu", "memory") or group not in ("", "requests", "limits"):
            continue
        kind = group or "requests"
        without = [
            row["name"]
            for row in obj["spec"]["containers"]
            if item not in (row["resources"].get(kind) or {})
        ]
        if without:
            yield f"{name} for: {','.join(without)}"


def _join(amounts: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={_write(name, amounts[name])}" for name in names)


def _write(name: str, amount: Fraction) -> str:
    return write_quantity(amount, is_binary=name.rpartition(".")[2] in _BINARY)


def _select(amounts: Amounts, hard: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if name in hard and amount}


def measure_namespace(store: Store, namespace: str, hard: Amounts) -> Amounts:
    """What the objects of a namespace use of the amounts of a quota."""
    used = dict.fromkeys(hard, Fraction(0))
    for resource in BY_KIND.values():
        if not resource.is_namespaced or not any(_concerns(resource, name) for name in hard):
            continue
        records, _ = store.list_records(resource.kind, namespace)
        for record in records:
            for name, amount in measure(resource, record.shared).items():
                if name in used:
                    used[name] += amount
    return used


def _concerns(resource: Resource, name: str) -> bool:
    if name.startswith("count/"):
        return name == f"count/{resource.qualified_plural}"
    return _COUNTED.get(name, "Pod") == resource.kind


def measure(resource: Resource, obj: Body) -> Amounts:
    """What one object uses, under all names that a quota may count it by."""
    amounts = {f"count/{resource.qualified_plural}": Fraction(1)}
    if resource.kind != "Pod":
        amounts[resource.plural] = Fraction(1)
        return amounts
    if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return amounts
    amounts["pods"] = Fraction(1)
    for kind in ("requests", "limits"):
        for container in obj["spec"].get("containers") or ():
            for name, text in (container.get("resources", {}).get(kind) or {}).items():
                key = f"{kind}.{name}"
                amounts[key] = amounts.get(key, Fraction(0)) + parse_quantity(text)
                if kind == "requests" and name in ("cpu", "memory"):
                    amounts[name] = amounts.get(name, Fraction(0)) + parse_quantity(text)
    return amounts


class QuotaStatus:
    """Writes ``status.used`` of the quotas of a namespace after its objects changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.subscribe(self._note)

    def _note(self, happened: str, obj: Body) -> None:
        namespace = obj["metadata"].get("namespace")
        if not namespace or obj["kind"] == "Event":
            return
        records, _ = self._store.list_records("ResourceQuota", namespace)
        for record in records:
            if happened != "DELETED" or obj["metadata"]["uid"] != record.shared["metadata"]["uid"]:
                self._write(record.load())

    def _write(self, quota: Body) -> None:
        hard = {name: parse_quantity(text) for name, text in _read_hard(quota).items()}
        used = measure_namespace(self._store, quota["metadata"]["namespace"], hard)
        quota["status"] = {
            "hard": dict(_read_hard(quota)),
            "used": {name: _write(name, amount) for name, amount in sorted(used.items())},
        }
        quota["metadata"].pop("resourceVersion")
        with suppress(NotFound):
            self._store.update(quota, subresource="status")


def set_limit_defaults(store: Store, obj: Body) -> None:
    """Give containers the amounts that a LimitRange of the namespace has for them."""
    for limit in _list_container_limits(store, obj):
        for container in list_containers(obj["spec"]):
            resources = container["resources"]
            for name, amount in (limit.get("default") or {}).items():
                resources.setdefault("limits", {}).setdefault(name, amount)
            requests = {**(limit.get("default") or {}), **(limit.get("defaultRequest") or {})}
            for name, amount in requests.items():
                resources.setdefault("requests", {}).setdefault(name, amount)


def check_limits(store: Store, obj: Body) -> None:
    """Raise Forbidden where a container's amounts are outside a LimitRange."""
    texts = [
        text
        for limit in _list_container_limits(store, obj)
        for container in list_containers(obj["spec"])
        for text in _compare(limit, container["resources"])
    ]
    if texts:
        detail = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        raise Forbidden(BY_KIND["Pod"], obj["metadata"]["name"], detail)


def _list_container_limits(store: Store, obj: Body) -> list[Body]:
    ranges, _ = store.list("LimitRange", obj["metadata"]["namespace"])
    rows = [row for item in ranges for row in item.get("spec", {}).get("limits", ())]
    return [row for row in rows if row.get("type") == "Container"]


def _compare(limit: Body, resources: Body) -> Iterator[str]:
    for words, kind, bounds, is_wrong in (
        ("maximum", "limit", limit.get("max") or {}, lambda have, bound: have > bound),
        ("minimum", "request", limit.get("min") or {}, lambda have, bound: have < bound),
    ):
        for name, bound in bounds.items():
            have = (resources.get(f"{kind}s") or {}).get(name)
            if have is None:
                yield f"{words} {name} usage per Container is {bound}.  No {kind} is specified"
            elif is_wrong(parse_quantity(have), parse_quantity(bound)):
                yield f"{words} {name} usage per Container is {bound}, but {kind} is {have}"
