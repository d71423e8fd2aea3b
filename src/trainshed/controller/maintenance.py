"""Gives notice to the jobs on nodes that go into maintenance, and restarts them.

Every pass computes its work afresh from the orders and the places, so a server that is killed
between two steps loses nothing.  A job that may not restart (``disableRetries``) stays on a node
that is only drained.  For a maintenance it gets the same notice as other jobs, and becomes FAILED
(UNAVAILABLE) when its processes have ended.  A second order with a shorter notice shortens the
rest of the first; a longer one does not affect jobs that already had their notice.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from trainshed.controller import story
from trainshed.controller.leases import Leases
from trainshed.controller.steps import apply_all, events_of_attempt, step_of
from trainshed.controller.worker import Pace
from trainshed.lifecycle.events import Command
from trainshed.lifecycle.outcome import AttemptFacts, last_stop, restart_ordered
from trainshed.model import event_kinds
from trainshed.model.resources import NodeState
from trainshed.model.restarts import Budgets, Cause
from trainshed.model.status import JobState
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.store.holdings import Holdings
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding, JobRecord
from trainshed.store.records.nodes import NodeStateRow
from trainshed.store.records.steps import Step

_NEVER: Final = float("inf")
_RESTARTABLE = frozenset({JobState.ENQUEUED, JobState.PREPARING, JobState.RUNNING})

_Attempt = tuple[int, int]
_Orders = Mapping[tuple[str, str], NodeStateRow]


@dataclass(eq=False)
class Maintenance:
    """Ends attempts on nodes in MAINTENANCE while this server leads."""

    store: Store
    leases: Leases
    holdings: Holdings
    budgets: Budgets
    pace: Pace
    """Its ``grace_s`` is the notice if an order sets none."""
    refresh_nodes: Callable[[], None]
    """Called before jobs get notice, so that the scheduler reads the nodes again."""
    orders_nodes: Callable[[str], str | None]
    """Returns the command that orders an engine's nodes; None if Trainshed orders them."""
    _settled: dict[_Attempt, float] = field(default_factory=dict, init=False)
    """The notice in seconds of attempts on such nodes that are already ending."""

    def once(self) -> int:
        """Do one pass; return how many jobs were given notice, 0 while another server leads."""
        if not self.leases.leading:
            return 0
        server = self.leases.name
        orders = self.store.node_orders()
        orders_by_node = {(o.engine, o.name): o for o in orders if o.state is NodeState.MAINTENANCE}
        orders_by_attempt = self._find_orders(orders_by_node) if orders_by_node else {}
        self._settled = {key: s for key, s in self._settled.items() if key in orders_by_attempt}
        new = [
            key for key in orders_by_attempt if not self._had_notice(key, orders_by_attempt[key])
        ]
        if not new:
            return 0
        self.refresh_nodes()
        records = self.store.jobs_by_uid([uid for uid, _ in new])
        steps = list(self._steps(records, orders_by_attempt, server))
        return sum(apply_all(self.store, steps, self.pace.batch))

    def _find_orders(self, orders: _Orders) -> dict[_Attempt, NodeStateRow]:
        """Return the attempts with places on such nodes, each with its shortest notice."""
        orders_by_attempt: dict[_Attempt, NodeStateRow] = {}
        for held in self.holdings.refresh().values():
            node_orders = _orders_of(held, orders)
            if node_orders and self.orders_nodes(held.engine) is None:
                orders_by_attempt[held.uid, held.attempt] = min(node_orders, key=self._notice_s)
        return orders_by_attempt

    def _steps(
        self,
        records: Mapping[int, JobRecord],
        orders_by_attempt: Mapping[_Attempt, NodeStateRow],
        server: str,
    ) -> Iterable[Step]:
        for record in records.values():
            attempt = (record.uid, record.attempt)
            if attempt not in orders_by_attempt:
                continue  # its places have changed since
            node = orders_by_attempt[attempt]
            if record.job.status.state in _RESTARTABLE:
                yield self._step(record, self._order(node), server)
                continue
            self._settled[attempt] = self._read_notice_s(record)
            if not self._had_notice(attempt, node):
                del self._settled[attempt]  # until the shorter notice is in its story
                yield _shorten_notice(record, self._order(node), server)

    def _had_notice(self, attempt: _Attempt, node: NodeStateRow) -> bool:
        """Return whether an attempt is already ending, no later than the node's order requires."""
        return self._settled.get(attempt, _NEVER) <= self._notice_s(node)

    def _read_notice_s(self, record: JobRecord) -> float:
        """Return the shortest notice in seconds that the newest attempt got; 0 after a cancel."""
        if record.job.status.state is not JobState.RESTARTING:
            return 0.0
        events = events_of_attempt(self.store, record.uid, record.attempt)
        notices = (e.data.get("notice_s") for e in events if e.kind == event_kinds.RESTART_ORDERED)
        return min((s for s in notices if isinstance(s, int | float)), default=_NEVER)

    def _order(self, node: NodeStateRow) -> StopOrder:
        return StopOrder(
            grace_s=self._notice_s(node),
            reason=StopReason.MAINTENANCE,
            message=f"The node {node.name} goes into maintenance.",
        )

    def _step(self, record: JobRecord, order: StopOrder, server: str) -> Step:
        facts = AttemptFacts(
            attempt=record.attempt,
            used=record.restarts,
            scheduling=record.job.spec.scheduling,
            budgets=self.budgets,
        )
        judgement = restart_ordered(order, Cause.MAINTENANCE, facts)
        judgement = judgement or last_stop(order, Cause.MAINTENANCE, facts)
        return step_of(record.active, judgement, server)

    def _notice_s(self, node: NodeStateRow) -> float:
        return self.pace.grace_s if node.notice_s is None else node.notice_s


def _shorten_notice(record: JobRecord, order: StopOrder, server: str) -> Step:
    """Return the step that shortens the notice of an attempt that is already RESTARTING.

    The step writes the job's pending error again, so that the row keeps it.
    """
    pending = record.job.status.error
    return Step(
        uid=record.uid,
        version=record.version,
        state=JobState.RESTARTING,
        error=pending,
        events=(story.stopping(order, pending),),
        commands=(Command.STOP,),
        stop=order,
        server=server,
    )


def _orders_of(held: Holding, orders: _Orders) -> Sequence[NodeStateRow]:
    nodes = {(seat.engine, seat.node) for seat in held.seats}
    return [orders[node] for node in sorted(nodes & orders.keys())]
