"""``/metrics`` and ``/metrics/jobs``, for Prometheus.

On the server's own port a caller needs the role viewer on all projects.  On ``[metrics] listen``
no token is needed; requests must be addressed to that host, so that no web page can read the pages
through a user's browser.
"""

import gzip
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trainshed.api.audited import note_response
from trainshed.api.chain import ChainServices
from trainshed.api.compression import accepts_gzip
from trainshed.api.documents import refusal_response
from trainshed.api.guards import check_host
from trainshed.api.incoming import request_context
from trainshed.api.rest import admit
from trainshed.api.threads import METRICS_THREADS
from trainshed.model.access import AccessRole, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.telemetry.page import OPEN_TYPE, TEXT_TYPE, accepts_open

PATH: Final = "/metrics"
JOBS_PATH: Final = "/metrics/jobs"
#: The level at which zlib is fast; the page is some 20 kB, and 4 kB then.
_GZIP_LEVEL: Final = 1
_FAMILIES_MAX: Final = 30
#: Prometheus, its agents and the collector of OpenTelemetry send it with each scrape.
_SCRAPE_HEADER: Final = "x-prometheus-scrape-timeout-seconds"


class MetricsPages(NamedTuple):
    """The pages of one server."""

    server: Callable[[bool, bool], str]
    """Returns the default page: in OpenMetrics, and for a program that scrapes."""
    jobs: Callable[[Sequence[str], bool], str] | None = None
    """Returns the page of jobs: the names of its families, empty for all.  None: switched off."""


def check_reader(caller: Caller) -> None:
    """Raise Refusal unless the caller may read the pages: they name all projects."""
    if not caller.may(AccessRole.VIEWER, None):
        raise Refusal(
            Code.PERMISSION_DENIED,
            "only a viewer of all projects may read metrics; an administrator creates a token "
            "with: trainshed tokens create --name prometheus --all-projects --role viewer",
        )


async def send_page(pages: MetricsPages, request: Request) -> Response:
    """Return the default page in the format and encoding that the request accepts."""
    is_scrape = _SCRAPE_HEADER in request.headers
    return await _send(lambda is_open: pages.server(is_open, is_scrape), request)


async def send_jobs_page(pages: MetricsPages, request: Request) -> Response:
    """Return the page of jobs with the families of ``?family=``; all without it."""
    if (read := pages.jobs) is None:
        message = f"{JOBS_PATH} is switched off; set jobs = true below [metrics] in config.toml"
        return refusal_response(Refusal(Code.NOT_FOUND, message))
    names = request.query_params.getlist("family")[:_FAMILIES_MAX]
    return await _send(lambda is_open: read(names, is_open), request)


def metrics_routes(pages: MetricsPages, services: ChainServices) -> list[Route]:
    """Return the routes on the server's own port."""

    def admitted(send: _Send) -> _Endpoint:
        async def endpoint(request: Request) -> Response:
            context = request_context(request.scope)
            try:
                check_reader(await admit(request.scope, context, services))
                response = await send(pages, request)
            except Refusal as refusal:
                response = refusal_response(refusal)
            note_response(services, context, request.url.path, response.status_code, request)
            return response

        return endpoint

    return _make_routes(admitted)


def open_metrics_app(pages: MetricsPages, host: str) -> Starlette:
    """Return the application of ``[metrics] listen``, which needs no token."""

    def guarded(send: _Send) -> _Endpoint:
        async def endpoint(request: Request) -> Response:
            try:
                check_host(request.headers.get("host"), (host,))
            except Refusal as refusal:
                return refusal_response(refusal)
            return await send(pages, request)

        return endpoint

    return Starlette(routes=_make_routes(guarded))


_Send = Callable[[MetricsPages, Request], Awaitable[Response]]
_Endpoint = Callable[[Request], Awaitable[Response]]


def _make_routes(wrap: Callable[[_Send], _Endpoint]) -> list[Route]:
    return [
        Route(PATH, wrap(send_page), include_in_schema=False),
        Route(JOBS_PATH, wrap(send_jobs_page), include_in_schema=False),
    ]


async def _send(read: Callable[[bool], str], request: Request) -> Response:
    is_open = accepts_open(request.headers.get("accept", ""))
    packs = accepts_gzip(request.headers.get("accept-encoding", ""))
    try:
        body = await METRICS_THREADS.run(_encode, read, is_open, packs)
    except Refusal as refusal:
        return refusal_response(refusal)
    headers = {"Vary": "Accept, Accept-Encoding", "Cache-Control": "no-store"}
    if packs:
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=OPEN_TYPE if is_open else TEXT_TYPE, headers=headers)


def _encode(read: Callable[[bool], str], is_open: bool, packs: bool) -> bytes:  # noqa: FBT001
    body = read(is_open).encode(errors="replace")  # a name of a cluster may be no text
    return gzip.compress(body, _GZIP_LEVEL, mtime=0) if packs else body
