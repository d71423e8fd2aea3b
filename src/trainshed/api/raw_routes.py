"""Routes that read and write bytes themselves, and the token in the path.

Storage clients that are pointed here by STORAGE_EMULATOR_HOST send no Authorization header even
when they have credentials (contracts/vertex-sdk.md 2.4).  Below ``/as/TOKEN/`` the token in the
path is their header.
"""

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from trainshed.api.call import RawMethod
from trainshed.api.chain import ADMISSION, Surroundings, incident, perform
from trainshed.api.documents import refusal_response
from trainshed.api.incoming import passage_of
from trainshed.model.access import Caller
from trainshed.model.refusals import Refusal

#: nginx's status for a client that went away; nobody reads it.
CLIENT_GONE = 499


def raw_routes(methods: Sequence[RawMethod], around: Surroundings) -> list[Route]:
    """A Starlette route a row."""
    return [
        Route(row.path, _endpoint(row, around), methods=[row.verb], include_in_schema=False)
        for row in methods
    ]


def token_mount(routes: Sequence[Route]) -> Mount:
    """The same routes below ``/as/{token}``."""
    return Mount("/as/{token}", app=TokenInPath(Router(routes, redirect_slashes=False)))


class TokenInPath:
    """Takes the token off the path, so that no log has it, and makes it the caller's header.

    The prefix stays in ``root_path``, for URLs that the client is to use next.
    """

    def __init__(self, app: ASGIApp) -> None:
        """``app`` sees requests as if they had come without the prefix."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request.  The scope is changed in place: the server's access log reads it too."""
        token = scope["path_params"].pop("token")
        _, _, rest = scope["path"].removeprefix("/as/").partition("/")
        raw = (scope.get("raw_path") or scope["path"].encode()).removeprefix(b"/as/")
        scope["path"] = f"/{rest}"
        scope["raw_path"] = b"/" + raw.partition(b"/")[2]
        scope["root_path"] = f"/as/{quote(token, safe='')}"
        headers = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
        bearer = f"Bearer {token}".encode("utf-8", "surrogateescape")
        scope["headers"] = [*headers, (b"authorization", bearer)]
        await self._app(scope, receive, send)


async def admit(scope: Scope, around: Surroundings) -> Caller:
    """The caller of a request whose Host and Origin are right.  Raises a Refusal."""
    passage = passage_of(scope)
    await anyio.to_thread.run_sync(perform, ADMISSION, around, passage)
    if passage.caller is None:
        raise AssertionError("the admission ends with a caller or a refusal")
    return passage.caller


def _endpoint(row: RawMethod, around: Surroundings) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await row.handle(request, await admit(request.scope, around))
        except Refusal as refusal:
            return refusal_response(refusal)
        except ClientDisconnect:
            return Response(status_code=CLIENT_GONE)
        except Exception:  # noqa: BLE001  # as in the chain: a number for the caller
            return refusal_response(incident(f"{row.verb} {row.path}"))

    return endpoint
