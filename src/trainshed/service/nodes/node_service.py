"""Lets administrators drain nodes, put them into maintenance and resume them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from trainshed.engines.several import Engines
from trainshed.model.durations import duration_of
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resources import FleetPolicy, NodeState, shown_name
from trainshed.model.texts import count_noun
from trainshed.service.nodes import node_gpus
from trainshed.service.nodes.node_gpus import GpusNow, GpuSummary
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding
from trainshed.store.records.nodes import NodeRow
from trainshed.wire.native_v1 import Answer, answer_of
from trainshed.wire.times import rfc3339

#: Two minutes: half a minute is too short to save a large model.
NOTICE_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary(Answer):
    """One machine of the fleet."""

    name: str
    engine: str
    state: NodeState
    notice: str | None = None
    """The notice that replicas get before its maintenance, such as ``120s``."""
    policy: FleetPolicy
    region: str
    vcpus: int
    memory_gb: float
    gpus: Mapping[str, int]
    slots: int
    replicas: int
    isolation: str = ""
    leftovers: str = ""
    network: str = ""
    seen: str
    gpus_free: int | None = None
    """The number of its GPUs that nothing uses; absent if unknown, and in answers of orders."""
    devices: Sequence[GpuSummary] | None = None
    """Its GPUs; absent in the answers of orders."""
    jobs: Sequence[str] | None = None
    """The names of the jobs on it that the caller may see; absent in the answers of orders."""
    order_command: str | None = None
    """The command with which the cluster's administrator drains it; absent if the server does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHealth(Answer):
    """The health of an engine."""

    name: str
    health: str
    """The reason why the engine does not work; empty while it works."""
    message: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet(Answer):
    """The nodes, and the health of their engines."""

    nodes: Sequence[NodeSummary]
    engines: Sequence[EngineHealth] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrdered(Answer):
    """The result of an order: the node, the jobs on it, and the consequences for them."""

    node: NodeSummary
    jobs: Sequence[str]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeService:
    """The fleet for administrators.  Every order may be repeated."""

    store: Store
    notice_s: float = NOTICE_S
    """The default notice of a maintenance, in seconds."""
    ordered: Callable[[], None] = lambda: None
    """Called after an order was stored, to wake the scheduler."""
    gpus_now: GpusNow | None = None
    """The GPUs of this server's machine (``SupportsGpuStatus``)."""
    engines: Engines | None = None
    """The engines of this server; None: their health is unknown."""

    def listing(self, sees: Callable[[str], bool] = lambda _: True) -> Fleet:
        """Return all nodes as their engines last reported them.

        ``sees`` says of a project whether the caller may know its jobs by name.
        """
        rows = self.store.nodes()
        now = node_gpus.by_uuid(self.gpus_now)
        holding = self.store.holding()
        held_gpus = node_gpus.count_held(holding)
        visible = [held for held in holding if sees(held.project)]
        several = self._are_several(rows)
        # of a cluster's node the server does not see the jobs of other users
        commands = [self._order_command(row) for row in rows]
        nodes = [
            _summarize(
                row,
                several=several,
                gpus_free=None if command else node_gpus.count_free(row, held_gpus),
                devices=node_gpus.shown(row.node.devices, now, visible),
                jobs=_jobs_on(row, visible),
                order_command=command,
            )
            for row, command in zip(rows, commands, strict=True)
        ]
        return Fleet(nodes=nodes, engines=self._engines())

    def _engines(self) -> list[EngineHealth]:
        """Return the health of each engine of this server."""
        healths = self.engines.check_healths() if self.engines else {}
        return [
            EngineHealth(
                name=name,
                health=why.reason.value if why else "",
                message=why.message if why else "",
                since=_time(why.since_s) if why else "",
            )
            for name, why in healths.items()
        ]

    def _are_several(self, rows: Iterable[NodeRow]) -> bool:
        several = self.engines is not None and self.engines.are_several
        return several or len({row.engine for row in rows}) > 1

    def drain(self, name: str, notice_s: float | None = None) -> NodeOrdered:
        """Drain a node: it takes no new replicas.  With a notice it goes into maintenance.

        Raises Refusal.
        """
        if notice_s is not None:
            return self.maintain(name, notice_s)
        return self._order(name, NodeState.DRAINED, None)

    def maintain(self, name: str, notice_s: float | None = None) -> NodeOrdered:
        """Put a node into maintenance: replicas get notice, their jobs restart elsewhere or wait.

        Raises Refusal.
        """
        notice_s = self.notice_s if notice_s is None else notice_s
        return self._order(name, NodeState.MAINTENANCE, notice_s)

    def resume(self, name: str) -> NodeOrdered:
        """Let a node take replicas again.  Raises Refusal."""
        return self._order(name, NodeState.READY, None)

    def _order(self, name: str, state: NodeState, notice_s: float | None) -> NodeOrdered:
        rows = self.store.nodes()
        several = self._are_several(rows)
        before = _find_node(name, rows, several=several)
        self._check_orders(before)
        engine, name = before.engine, before.node.name
        if not self.store.set_node_state(engine, name, state, notice_s):
            raise Refusal(Code.NOT_FOUND, _no_such(name, self.store.nodes(), several=several))
        self.ordered()
        row = next(row for row in self.store.nodes() if _key(row) == (engine, name))
        jobs = _jobs_on(row, self.store.holding())
        return NodeOrdered(
            node=_summarize(row, several=several, devices=None),
            jobs=jobs,
            message=_message(row, len(jobs), several=several),
        )

    def _check_orders(self, row: NodeRow) -> None:
        """Raise Refusal for a node whose cluster manages it."""
        if command := self._order_command(row):
            message = f"{row.node.name} is a node of {row.engine}, which places jobs itself"
            raise Refusal(
                Code.FAILED_PRECONDITION, f"{message}; use the command of its cluster: {command}"
            )

    def _order_command(self, row: NodeRow) -> str | None:
        """Return the command that drains a node whose cluster manages it; None for others."""
        command = self.engines and self.engines.traits_of(row.engine).orders_nodes
        return command.replace("NODE", row.node.name) if command else None


def _find_node(name: str, rows: Sequence[NodeRow], *, several: bool) -> NodeRow:
    """Find a node by ``ENGINE/NODE``, or by an unambiguous name.  Raises Refusal."""
    matches = [row for row in rows if name in {row.node.name, f"{row.engine}/{row.node.name}"}]
    if not matches:
        raise Refusal(Code.NOT_FOUND, _no_such(name, rows, several=several))
    if len(matches) > 1:
        names = ", ".join(_name(row, several=several) for row in matches)
        raise Refusal(Code.INVALID_ARGUMENT, f"there are several nodes {name}: {names}")
    return matches[0]


def _name(row: NodeRow, *, several: bool) -> str:
    return shown_name(row.node, several=several)


def _time(since_s: float | None) -> str:
    text = None if since_s is None else rfc3339(datetime.fromtimestamp(since_s, UTC))
    return text or ""


def _jobs_on(row: NodeRow, holding: Iterable[Holding]) -> list[str]:
    return sorted({held.name for held in holding if _is_on(held, row)})


def _is_on(held: Holding, row: NodeRow) -> bool:
    return any((seat.engine or row.engine, seat.node) == _key(row) for seat in held.seats)


def _key(row: NodeRow) -> tuple[str, str]:
    return row.engine, row.node.name


def _no_such(name: str, rows: Iterable[NodeRow], *, several: bool) -> str:
    names = ", ".join(sorted({_name(row, several=several) for row in rows}))
    return f"there is no node {name}; {f'there are: {names}' if names else 'none was seen yet'}"


def _message(row: NodeRow, jobs: int, *, several: bool) -> str:
    name = _name(row, several=several)
    if row.node.state is NodeState.READY:
        return f"{name} takes new replicas"
    if not jobs:
        return f"{name} takes no new replicas; nothing runs on it"
    count = f"{count_noun(jobs, 'job')} on {name}"
    if row.node.state is NodeState.DRAINED:
        return f"{name} takes no new replicas; {count} {_plural('run', jobs)} on"
    notice = f"{row.notice_s or 0:g} s notice"
    verb, again = _plural("get", jobs), _plural("start", jobs)
    return f"{count} {verb} {notice}, and {again} again elsewhere or when {name} is back"


def _plural(verb: str, count: int) -> str:
    return verb if count > 1 else f"{verb}s"


def _summarize(
    row: NodeRow, *, several: bool, devices: Sequence[GpuSummary] | None, **others: Any
) -> NodeSummary:
    return answer_of(
        NodeSummary,
        row.node,
        name=_name(row, several=several),
        engine=row.engine,
        notice=None if row.notice_s is None else duration_of(row.notice_s),
        region=row.node.region or "",
        replicas=row.replicas,
        seen=rfc3339(row.seen_time),
        devices=devices,
        **others,
    )
