"""Stores the nodes that engines report, and the states that administrators set for them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Row, bindparam, delete, func, select, update

from trainshed.model.resources import Node, NodeState
from trainshed.store import codec
from trainshed.store.database import Database
from trainshed.store.records.nodes import NodeRow, NodeStateRow
from trainshed.store.tables import ATTEMPTS, JOBS, NODE_STATES, NODES, REPLICAS
from trainshed.store.upsert import insert
from trainshed.store.writer import Transaction

_new = insert(NODES)
_PUT = _new.on_conflict_do_update(
    index_elements=["engine", "name"],
    set_={"node": _new.excluded.node, "seen_ns": _new.excluded.seen_ns},
)
_new_state = insert(NODE_STATES)
_PUT_STATE = _new_state.on_conflict_do_update(
    index_elements=["engine", "name"],
    set_={"state": _new_state.excluded.state, "notice_s": _new_state.excluded.notice_s},
)
_NODES_OF_ENGINE = select(NODES.c.name, NODES.c.node).where(
    NODES.c.engine == bindparam("of_engine")
)
_SET_SEEN = update(NODES).where(NODES.c.engine == bindparam("of_engine"))
_GONE = delete(NODES).where(
    NODES.c.engine == bindparam("of_engine"), NODES.c.name == bindparam("of_name")
)
_OF_NODE = (NODE_STATES.c.engine == NODES.c.engine) & (NODE_STATES.c.name == NODES.c.name)
ALL = (
    select(NODES, NODE_STATES.c.state, NODE_STATES.c.notice_s)
    .outerjoin(NODE_STATES, _OF_NODE)
    .order_by(NODES.c.engine, NODES.c.name)
)
#: Nodes are read every second and hardly ever change.
_REMEMBERED_MAX = 10_000
_STATES = (
    select(NODES.c.engine, NODES.c.node, NODE_STATES.c.state)
    .outerjoin(NODE_STATES, _OF_NODE)
    .order_by(NODES.c.engine, NODES.c.name)
)
_ORDERS = (
    select(NODE_STATES)
    .where(NODE_STATES.c.state != NodeState.READY.value)
    .order_by(NODE_STATES.c.engine, NODE_STATES.c.name)
)
PLACES = (
    select(ATTEMPTS.c.engine, REPLICAS.c.node, func.count().label("places"))
    .join(JOBS, (JOBS.c.uid == REPLICAS.c.uid) & (JOBS.c.attempt == REPLICAS.c.attempt))
    .join(
        ATTEMPTS,
        (ATTEMPTS.c.uid == REPLICAS.c.uid) & (ATTEMPTS.c.attempt == REPLICAS.c.attempt),
    )
    .where(JOBS.c.held_ns.is_not(None))
    .group_by(ATTEMPTS.c.engine, REPLICAS.c.node)
)


class StoredNodes:
    _db: Database

    def see_nodes(self, engine: str, nodes: Sequence[Node]) -> None:
        """Store an engine's current nodes; a state set by ``set_node_state`` has priority."""
        new_texts = {node.name: codec.NODE.encode(node) for node in nodes}

        def replace_nodes(tx: Transaction) -> None:
            parameters = {"of_engine": engine}
            old_texts = {
                row.name: row.node for row in tx.connection.execute(_NODES_OF_ENGINE, parameters)
            }
            put = [
                {"engine": engine, "name": name, "node": text, "seen_ns": tx.now_ns}
                for name, text in new_texts.items()
                if old_texts.get(name) != text
            ]
            removed = [
                {**parameters, "of_name": name} for name in old_texts.keys() - new_texts.keys()
            ]
            tx.connection.execute(_SET_SEEN.values(seen_ns=tx.now_ns), parameters)
            if put:
                tx.connection.execute(_PUT, put)
            if removed:
                tx.connection.execute(_GONE, removed)

        self._db.write(replace_nodes)

    def set_node_state(
        self, engine: str, name: str, state: NodeState, notice_s: float | None = None
    ) -> bool:
        """Set the state of a node; False if the engine has no node of this name.

        ``notice_s`` is for MAINTENANCE only: seconds between the notice to replicas and their kill.
        """
        row = {
            "engine": engine,
            "name": name,
            "state": state.value,
            "notice_s": notice_s if state is NodeState.MAINTENANCE else None,
        }

        def put(tx: Transaction) -> bool:
            query = select(NODES.c.name).where(NODES.c.engine == engine, NODES.c.name == name)
            if tx.connection.execute(query).first() is None:
                return False
            tx.connection.execute(_PUT_STATE, row)
            return True

        return self._db.write(put)

    def node_orders(self) -> Sequence[NodeStateRow]:
        """Return the nodes that an administrator set to a state other than READY."""
        return [
            NodeStateRow(
                engine=row.engine,
                name=row.name,
                state=NodeState(row.state),
                notice_s=row.notice_s,
            )
            for row in self._db.rows(_ORDERS)
        ]

    def nodes(self, *, with_replicas: bool = True) -> Sequence[NodeRow]:
        """Return all nodes that engines reported, with the number of replicas on each.

        Without ``with_replicas`` they are not counted, which takes a tenth of the time.
        """
        places = places_of(self._db.rows(PLACES)) if with_replicas else {}
        return [node_row(row, places) for row in self._db.rows(ALL)]

    def fleet(self) -> Sequence[Node]:
        """Return all nodes without their replicas; cheap enough for a call every second."""
        return [_node(engine, text, state) for engine, text, state in self._db.rows(_STATES)]


Places = Mapping[tuple[str, str], int]


def places_of(rows: Iterable[Row[Any]]) -> Places:
    """Return the number of replicas on each node, by engine and name; ``rows`` are of PLACES."""
    return {(row.engine, row.node): row.places for row in rows}


def node_row(row: Row[Any], places: Places) -> NodeRow:
    """Build a NodeRow from a row of ``ALL`` and the number of replicas on the node.

    An attempt with an empty engine is from a release that had one engine only.
    """
    replicas = places.get((row.engine, row.name), 0) + places.get(("", row.name), 0)
    return NodeRow(
        engine=row.engine,
        node=_node(row.engine, row.node, row.state),
        seen_time=codec.to_time(row.seen_ns),
        replicas=replicas,
        notice_s=row.notice_s,
    )


@lru_cache(_REMEMBERED_MAX)
def _node(engine: str, text: str, state: str | None) -> Node:
    node = replace(codec.NODE.decode(text), engine=engine)
    return node if state is None else replace(node, state=NodeState(state))
