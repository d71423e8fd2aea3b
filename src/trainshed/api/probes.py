"""``/healthz`` and ``/readyz``, with the names and the meaning of Kubernetes' probes.

Neither depends on an engine: with its cluster away, a server still accepts, lists and cancels jobs,
and a restart would not bring the cluster back.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from trainshed.store.base import StoreFault

_log = logging.getLogger(__name__)


class Probes(NamedTuple):
    """The checks that the probes make."""

    is_healthy: Callable[[], bool]
    """Returns whether the store answers; may raise."""
    is_controlling: Callable[[], bool]
    """Returns whether accepted jobs are started and observed."""


def list_probe_routes(probes: Probes) -> list[Route]:
    """Return the routes, which need no token.

    ``/healthz``: the process answers, and so does its store.  ``/readyz``: besides, the controller
    runs.
    """

    def find_health_fault() -> str:
        return "" if _has_store(probes.is_healthy) else "the store does not answer"

    def find_readiness_fault() -> str:
        fault = find_health_fault()
        if fault or probes.is_controlling():
            return fault
        return "the controller does not run"

    return [
        Route("/healthz", _make_endpoint(find_health_fault)),
        Route("/readyz", _make_endpoint(find_readiness_fault)),
    ]


def _make_endpoint(find_fault: Callable[[], str]) -> Callable[[Request], Any]:
    """Return an endpoint that responds ``ok``, or 503 with the fault."""

    async def endpoint(request: Request) -> Response:
        del request
        fault = await anyio.to_thread.run_sync(find_fault)
        return PlainTextResponse(fault or "ok", 503 if fault else 200)

    return endpoint


def _has_store(is_healthy: Callable[[], bool]) -> bool:
    """Return whether the store answers; log why it does not."""
    try:
        return is_healthy()
    except StoreFault as fault:  # transient: no traceback
        _log.warning("cannot query the store for the health check: %s", fault)
    except Exception:  # noqa: BLE001  # any failure gets the same answer
        _log.warning("cannot query the store for the health check", exc_info=True)
    return False
