"""Rows of nodes, as values."""

from dataclasses import dataclass
from datetime import datetime

from trainshed.model.resources import Node, NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node as an engine last reported it."""

    engine: str
    node: Node
    seen_time: datetime
    replicas: int = 0
    """Replicas that hold a place on it."""
    notice_s: float | None = None
    """In MAINTENANCE: the seconds of notice that replicas get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStateRow:
    """An administrator's order for a node that is not READY."""

    engine: str
    name: str
    state: NodeState
    notice_s: float | None
