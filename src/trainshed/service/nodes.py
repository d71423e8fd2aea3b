"""What administrators say of nodes: take no new replicas, go into maintenance, come back (R20)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from trainshed.model.durations import duration_of
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resources import NodeState
from trainshed.service import node_gpus
from trainshed.service.node_gpus import GpusNow
from trainshed.store.opening import Store
from trainshed.store.records import Holding, NodeRow
from trainshed.wire.times import rfc3339

Json = dict[str, Any]

#: Two minutes: half a minute is too short to save a large model.
NOTICE_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeService:
    """The fleet as administrators see it and change it.  Every order may be repeated."""

    store: Store
    notice_s: float = NOTICE_S
    """What replicas get when a maintenance says nothing of it."""
    ordered: Callable[[], None] = lambda: None
    """Called when an order was kept: whoever places jobs looks at the nodes once a second."""
    gpus_now: GpusNow | None = None
    """The GPUs of this server's machine (``Traits.gpus_now``)."""

    def listing(self, sees: Callable[[str], bool] = lambda _: True) -> Json:
        """All nodes as their engines last reported them.

        ``sees`` says of a project whether the caller may know its jobs by name.
        """
        rows = self.store.nodes()
        now = node_gpus.by_uuid(self.gpus_now)
        held = any(each.attempt is not None for each in now.values())
        jobs = node_gpus.names_of(self.store.holding(), sees) if held else {}
        return {
            "nodes": [
                {**_shown(row), "devices": node_gpus.shown(row.node.devices, now, jobs)}
                for row in rows
            ]
        }

    def drain(self, name: str, notice_s: float | None = None) -> Json:
        """Let a node take no new replicas; with a notice it goes into maintenance.

        Raises Refusal.
        """
        if notice_s is not None:
            return self.maintain(name, notice_s)
        return self._order(name, NodeState.DRAINED, None)

    def maintain(self, name: str, notice_s: float | None = None) -> Json:
        """Give a node's replicas notice; their jobs start again elsewhere, or wait.

        Raises Refusal.
        """
        notice_s = self.notice_s if notice_s is None else notice_s
        return self._order(name, NodeState.MAINTENANCE, notice_s)

    def resume(self, name: str) -> Json:
        """Let a node take replicas again.  Raises Refusal."""
        return self._order(name, NodeState.READY, None)

    def _order(self, name: str, state: NodeState, notice_s: float | None) -> Json:
        if not self.store.set_node_state(name, state, notice_s):
            raise Refusal(Code.NOT_FOUND, _no_such(name, self.store.nodes()))
        self.ordered()
        row = next(row for row in self.store.nodes() if row.node.name == name)
        jobs = sorted({held.name for held in self.store.holding() if _is_on(held, name)})
        return {"node": _shown(row), "jobs": jobs, "message": _message(row, len(jobs))}


def _is_on(held: Holding, name: str) -> bool:
    return any(seat.node == name for seat in held.seats)


def _no_such(name: str, known: Iterable[NodeRow]) -> str:
    names = ", ".join(sorted({row.node.name for row in known}))
    return f"there is no node {name}; " + (f"there are: {names}" if names else "none was seen yet")


def _message(row: NodeRow, jobs: int) -> str:
    name = row.node.name
    if row.node.state is NodeState.READY:
        return f"{name} takes new replicas"
    if not jobs:
        return f"{name} takes no new replicas; nothing runs on it"
    count = f"{jobs} job{'s' if jobs > 1 else ''} on {name}"
    if row.node.state is NodeState.DRAINED:
        return f"{name} takes no new replicas; {count} {_plural('run', jobs)} on"
    notice = f"{row.notice_s or 0:g} s notice"
    verb, again = _plural("get", jobs), _plural("start", jobs)
    return f"{count} {verb} {notice}, and {again} again elsewhere or when {name} is back"


def _plural(verb: str, count: int) -> str:
    return verb if count > 1 else f"{verb}s"


def _shown(row: NodeRow) -> Json:
    node = row.node
    return {
        "name": node.name,
        "engine": row.engine,
        "state": node.state.value,
        "notice": None if row.notice_s is None else duration_of(row.notice_s),
        "policy": node.policy.value,
        "region": node.region or "",
        "vcpus": node.vcpus,
        "memoryGb": node.memory_gb,
        "gpus": dict(node.gpus),
        "slots": node.slots,
        "isolation": node.isolation,
        "leftovers": node.leftovers,
        "replicas": row.replicas,
        "seen": rfc3339(row.seen),
    }
