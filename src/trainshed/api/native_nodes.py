"""The native routes of the fleet: its nodes, and what administrators order them."""

from typing import Any

from fastapi import APIRouter, Depends

from trainshed.api import native_models as shown
from trainshed.api.native_callers import Known, administrator
from trainshed.service.nodes import Nodes
from trainshed.wire.times import seconds

Json = dict[str, Any]


def node_routes(nodes: Nodes) -> APIRouter:
    """``/nodes`` and below."""
    router = APIRouter(tags=["fleet"])
    ordered: Json = {
        "response_model": shown.NodeOrdered,
        "response_model_exclude_none": True,
        "dependencies": [Depends(administrator)],
    }

    @router.get("/nodes", response_model=shown.Nodes, response_model_exclude_none=True)
    def list_nodes(_: Known) -> Json:
        """Show the fleet as it was last seen."""
        return nodes.listing()

    @router.post("/nodes/{node}:drain", **ordered)
    def drain(node: str, order: shown.NodeOrder | None = None) -> Json:
        """Let a node take no new replicas; those on it run on, unless a notice is given."""
        return nodes.drain(node, _notice(order))

    @router.post("/nodes/{node}:maintain", **ordered)
    def maintain(node: str, order: shown.NodeOrder | None = None) -> Json:
        """Give the replicas on a node notice; their jobs start again elsewhere, or wait."""
        return nodes.maintain(node, _notice(order))

    @router.post("/nodes/{node}:resume", **ordered)
    def resume(node: str) -> Json:
        """Let a node take replicas again."""
        return nodes.resume(node)

    return router


def _notice(order: shown.NodeOrder | None) -> float | None:
    return seconds(order.notice) if order else None
