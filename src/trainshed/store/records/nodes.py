"""Records of nodes."""

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
    """The number of replicas that have a seat on the node."""
    notice_s: float | None = None
    """In MAINTENANCE: the seconds between the notice to replicas and their kill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStateRow:
    """The state that an administrator set for a node, other than READY."""

    engine: str
    name: str
    state: NodeState
    notice_s: float | None
