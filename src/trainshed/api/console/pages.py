"""``/console/``: the page of the console and its static files, for every caller.

The files are public, as are the sources, so they need no sign-in; everything that the page shows
comes from native routes.  Each path below ``/console/`` gives the page, which reads the path
itself, so a user can bookmark and send the address of a job.
"""

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from trainshed.api.chain import ChainServices, guard_page
from trainshed.api.compression import accepts_gzip
from trainshed.api.console.bundle import ConsoleBundle, StaticFile
from trainshed.api.documents import refusal_response
from trainshed.api.incoming import request_context
from trainshed.api.threads import THREADS
from trainshed.model.refusals import Code, Refusal

#: The address of the console, after the server's own.
CONSOLE_PATH: Final = "/console/"
_STATIC: Final = f"{CONSOLE_PATH}static/"
_NONCE_BYTES: Final = 16
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_COMMON_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PERMISSIONS: Final = ", ".join(
    f"{name}=()"
    for name in (
        "accelerometer",
        "camera",
        "display-capture",
        "geolocation",
        "gyroscope",
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "usb",
    )
)

_Endpoint = Callable[[Request], Awaitable[Response]]


def console_routes(services: ChainServices, bundle: ConsoleBundle) -> list[Route]:
    """Return the routes of the console; they check Host and Origin like all routes."""
    page = _guarded(services, partial(_send_page, bundle))
    return [
        Route("/console", _guarded(services, _redirect), include_in_schema=False),
        Route(
            f"{_STATIC}{{name}}",
            _guarded(services, partial(_send_file, bundle)),
            include_in_schema=False,
        ),
        Route(f"{CONSOLE_PATH}{{path:path}}", page, include_in_schema=False),
    ]


def policy(nonce: str) -> str:
    """Return the content security policy of a page with this nonce for its style elements."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; "
        "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )


def _guarded(services: ChainServices, endpoint: _Endpoint) -> _Endpoint:
    async def guarded(request: Request) -> Response:
        try:
            guard_page(services, request_context(request.scope))
            return await endpoint(request)
        except Refusal as refusal:
            return refusal_response(refusal)

    return guarded


async def _redirect(request: Request) -> Response:
    del request
    return RedirectResponse(CONSOLE_PATH, 303, headers=_COMMON_HEADERS)


async def _send_page(bundle: ConsoleBundle, request: Request) -> Response:
    del request
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    headers = {
        "Content-Security-Policy": policy(nonce),
        "Permissions-Policy": _PERMISSIONS,
        "X-Frame-Options": "DENY",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(bundle.render_page(nonce), headers={**_COMMON_HEADERS, **headers})


async def _send_file(bundle: ConsoleBundle, request: Request) -> Response:
    """Send a static file.  Raises Refusal for a name that the bundle does not have."""
    name = request.path_params["name"]
    file = bundle.files.get(name)
    if file is None:
        message = f"the console has no file {name[:100]!r}; reload the page"
        raise Refusal(Code.NOT_FOUND, message)
    gzip = file.is_compressed and accepts_gzip(request.headers.get("accept-encoding", ""))
    content = file.content if gzip else await THREADS.run(file.plain_content)
    return Response(content, headers=_file_headers(file, gzip=gzip), media_type=file.media_type)


def _file_headers(file: StaticFile, *, gzip: bool) -> dict[str, str]:
    headers = {
        **_COMMON_HEADERS,
        "Cache-Control": _IMMUTABLE if file.is_immutable else "no-cache",
        "Vary": "Accept-Encoding",
    }
    return {**headers, "Content-Encoding": "gzip"} if gzip else headers
