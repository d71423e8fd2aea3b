"""Google's routes as one ASGI application.

Not Starlette routes, for speed: a call is one look-up in the table, one hop to a thread (handlers
are synchronous), one answer.
"""

import anyio.to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trainshed.api.answers import json_bytes_response, refusal_response
from trainshed.api.bodies import Incoming, answer_early, read_whole
from trainshed.api.chain import ADMISSION, CHAIN, Passage, Surroundings, perform
from trainshed.api.incoming import passage_of
from trainshed.api.threads import THREADS
from trainshed.model.refusals import Code, Refusal


class GoogleRoutes:
    """Answers whatever path it is given; unknown ones with a refusal."""

    def __init__(self, around: Surroundings) -> None:
        """``around`` has the table."""
        self._around = around

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        passage, incoming = passage_of(scope), Incoming(receive)
        try:
            await self._read(passage, scope, incoming)
        except Refusal as refusal:
            await answer_early(refusal_response(refusal), scope, incoming, send)
        else:
            response = await THREADS.run(answer, self._around, passage)
            await response(scope, receive, send)

    async def _read(self, passage: Passage, scope: Scope, incoming: Incoming) -> None:
        """Take the body.  Whoever sends more than one packet of it is recognised first."""
        first = await incoming()
        passage.body = first.get("body", b"")
        if first["type"] == "http.disconnect":
            raise Refusal(Code.CANCELLED, "the client went away")
        if incoming.more:
            await anyio.to_thread.run_sync(perform, ADMISSION, self._around, passage)
            most = self._around.body_bytes_max
            passage.body = await read_whole(scope, incoming, most, begun=passage.body)


def answer(around: Surroundings, passage: Passage) -> Response:
    """The chain, and its end rendered."""
    try:
        perform(CHAIN, around, passage)
    except Refusal as refusal:
        return refusal_response(refusal)
    return json_bytes_response(passage.reply)
