"""Native routes of the fleet: nodes, alerts, attempts that cannot be reached, metrics."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse

from trainshed.api.metrics import check_reader, send_jobs_page, send_page
from trainshed.api.native import models
from trainshed.api.native.callers import Known, administrator
from trainshed.api.native.limits import ATTEMPT_MAX, SEQ_MAX
from trainshed.api.native.services import Native
from trainshed.model.access import AccessRole, Caller
from trainshed.service.alerts.alerts import AlertList
from trainshed.service.nodes.fencing import AttemptService, FencedAttempt
from trainshed.service.nodes.node_service import Fleet, NodeOrdered
from trainshed.wire.times import seconds


def fleet_router(native: Native) -> APIRouter:
    """Return the routes of nodes, alerts and metrics."""
    router, nodes = APIRouter(tags=["fleet"]), native.nodes
    ordered: dict[str, Any] = {
        "response_model_exclude_none": True,
        "dependencies": [Depends(administrator)],
    }

    @router.get("/nodes", response_model_exclude_none=True)
    def list_nodes(caller: Known) -> Fleet:
        """List the nodes as last reported, with the current state of this machine's GPUs.

        A process outside Trainshed that uses a GPU is detected within half a minute.
        """
        return nodes.listing(partial(caller.may, AccessRole.VIEWER))

    @router.get("/alerts", response_model_exclude_none=True)
    def list_alerts(caller: Known) -> AlertList:
        """List what a person should look at: hung replicas, GPUs held and idle for 30 minutes.

        Also a queue that is stuck, nodes that no engine reports, and disks that are nearly full.
        The GPUs and disks are those of the answering server's machine.
        """
        return native.alerts.listing(partial(caller.may, AccessRole.VIEWER))

    @router.post("/nodes/{node:path}:drain", **ordered)
    def drain(node: str, order: models.NodeOrder | None = None) -> NodeOrdered:
        """Stop new replicas on a node; running ones continue, unless ``notice`` is given."""
        return nodes.drain(node, _notice(order))

    @router.post("/nodes/{node:path}:maintain", **ordered)
    def maintain(node: str, order: models.NodeOrder | None = None) -> NodeOrdered:
        """Give notice to the replicas on a node; their jobs restart on other nodes, or wait."""
        return nodes.maintain(node, _notice(order))

    @router.post("/nodes/{node:path}:resume", **ordered)
    def resume(node: str) -> NodeOrdered:
        """Allow replicas on a node again."""
        return nodes.resume(node)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics(caller: Known, request: Request) -> Response:
        """Return the server's metrics in Prometheus' text format, or in OpenMetrics.

        For viewers of all projects.  ``/metrics`` of the server is the same page.
        """
        check_reader(caller)
        return await send_page(native.metrics, request)

    @router.get(
        "/metrics/jobs",
        response_class=PlainTextResponse,
        responses={503: {"model": models.Status}},
    )
    async def job_metrics(
        caller: Known,
        request: Request,
        family: Annotated[Sequence[str], Query(max_length=30)] = (),
    ) -> Response:
        """Return metrics of the newest jobs that have not ended, if the settings allow it.

        ``family`` chooses families by name.  For viewers of all projects.
        """
        del family  # read from the request
        check_reader(caller)
        return await send_jobs_page(native.metrics, request)

    return router


def attempt_router(attempts: AttemptService) -> APIRouter:
    """Return the route that confirms the end of an attempt."""
    router = APIRouter(tags=["fleet"])

    @router.post("/attempts/{uid}/{attempt}:fence")
    def fence(
        uid: Annotated[int, Path(ge=1, le=SEQ_MAX)],
        attempt: Annotated[int, Path(ge=1, le=ATTEMPT_MAX)],
        caller: Annotated[Caller, Depends(administrator)],
    ) -> FencedAttempt:
        """Confirm that an unreachable attempt has no running processes: it counts as lost."""
        return attempts.fence(uid, attempt, caller.name)

    return router


def _notice(order: models.NodeOrder | None) -> float | None:
    return seconds(order.notice) if order else None
