"""Google's routes as one ASGI application.

Not Starlette routes, for speed: a call is one look-up in the table, one hop to a thread (handlers
are synchronous), one answer.
"""

import anyio.to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trainshed.api.answers import json_bytes_response, refusal_response
from trainshed.api.chain import ADMISSION, CHAIN, Passage, Surroundings, perform
from trainshed.api.documents import refuse_large
from trainshed.api.incoming import length_of, passage_of, read_body
from trainshed.model.refusals import Code, Refusal


class GoogleRoutes:
    """Answers whatever path it is given; unknown ones with a refusal."""

    def __init__(self, around: Surroundings) -> None:
        """``around`` has the table."""
        self._around = around

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        passage = passage_of(scope)
        try:
            await self._read(passage, scope, receive)
        except Refusal as refusal:
            response = refusal_response(refusal)
        else:
            response = await anyio.to_thread.run_sync(answer, self._around, passage)
        await response(scope, receive, send)

    async def _read(self, passage: Passage, scope: Scope, receive: Receive) -> None:
        """Take the body.  Whoever sends more than one packet of it is recognised first."""
        first = await receive()
        passage.body = first.get("body", b"")
        if first["type"] == "http.disconnect":
            raise Refusal(Code.CANCELLED, "the client went away")
        if first.get("more_body", False):
            await anyio.to_thread.run_sync(perform, ADMISSION, self._around, passage)
            if length_of(scope) > self._around.body_bytes_max:
                refuse_large(self._around.body_bytes_max)
            passage.body = await read_body(receive, passage.body, self._around.body_bytes_max)


def answer(around: Surroundings, passage: Passage) -> Response:
    """The chain, and its end rendered."""
    try:
        perform(CHAIN, around, passage)
    except Refusal as refusal:
        return refusal_response(refusal)
    return json_bytes_response(passage.reply)
