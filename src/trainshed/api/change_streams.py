"""Sends changes to open pages as server-sent events: one look at the database for all streams.

Each stream has a short queue of events.  A client that reads too slowly to keep up loses the events
in its queue and gets ``resync`` instead, so that the server's memory is bounded; one that reads
nothing for a minute is disconnected.  An ``EventSource`` cannot send the header that a call by
cookie needs, so pages read the stream with ``fetch``.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic, thread_time
from typing import Any, Final

import anyio
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from trainshed.api.chain import incident
from trainshed.api.connections import CONNECTION
from trainshed.api.documents import refusal_response
from trainshed.api.log_stream import while_admitted
from trainshed.api.threads import THREADS
from trainshed.model.access import Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.changes.comparing import PAUSE_S_MIN, cost_of, pause_after
from trainshed.service.changes.looks import ChangeLooks
from trainshed.service.changes.topics import TopicScope

#: The most streams of a server at once, and when a page may try again.
STREAMS_MAX: Final = 200
RETRY_AFTER_S: Final = 5
#: The most events that wait for a slow reader, and their most bytes.
PENDING_MAX: Final = 64
PENDING_BYTES_MAX: Final = 1 << 19
#: Seconds without an event after which a comment is sent: proxies end silent connections.
COMMENT_S: Final = 15.0
#: Seconds between two checks of the caller's token; its stream ends within 2 s.
CHECK_S: Final = 1.5
#: The most seconds that a reader may leave the connection full.
SEND_S_MAX: Final = 60.0
#: A new stream may shorten the pause before the next look to this share.
EARLY: Final = 0.2

_COMMENT: Final = b":\n\n"


class ChangeStream:
    """The events that wait for one client."""

    def __init__(self, topics: Mapping[str, TopicScope]) -> None:
        """``topics`` are the scopes by the caller's words."""
        self.topics = topics
        self.scopes = frozenset(topics.values())
        self.is_ready = False
        """Whether changes are sent: the client was notified."""
        self.is_away = False
        """Whether the client was notified that changes are not sent now."""
        self._frames: deque[bytes] = deque()
        self._pending_bytes = 0
        self._has_frames = asyncio.Event()

    def push(self, frame: bytes) -> None:
        """Add an event; if too many wait, replace all of them by ``resync``."""
        self._frames.append(frame)
        self._pending_bytes += len(frame)
        if len(self._frames) > PENDING_MAX or self._pending_bytes > PENDING_BYTES_MAX:
            self._frames = deque(make_frame("resync", text) for text in self.topics)
            self._pending_bytes = sum(map(len, self._frames))
        self._has_frames.set()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield events as they come, a comment if none do, and b"" every ``CHECK_S``."""
        sent_at_s = monotonic()
        while True:
            piece = self._take()
            if not piece and monotonic() - sent_at_s > COMMENT_S:
                piece = _COMMENT
            if piece:
                sent_at_s = monotonic()
            yield piece
            with anyio.move_on_after(CHECK_S):
                await self._has_frames.wait()

    def _take(self) -> bytes:
        piece = b"".join(self._frames)
        self._frames.clear()
        self._pending_bytes = 0
        self._has_frames.clear()
        return piece


def make_frame(event: str, topic: str | None = None, document: bytes = b"{}") -> bytes:
    """Return one server-sent event; its data is the document with the topic."""
    if topic is not None:
        rest = document[1:] if document == b"{}" else b"," + document[1:]
        document = b'{"topic":' + json.dumps(topic).encode() + rest
    return b"event: " + event.encode() + b"\ndata: " + document + b"\n\n"


class ChangeStreams:
    """All streams of a server.  For use on its event loop only: no locks."""

    def __init__(self, looks: ChangeLooks, streams_max: int = STREAMS_MAX) -> None:
        """Nothing is looked at until the first stream."""
        self._looks = looks
        self._streams_max = streams_max
        self._streams: dict[ChangeStream, None] = {}
        self._looking: asyncio.Task[None] | None = None
        self._is_new = asyncio.Event()
        self._looked: frozenset[TopicScope] = frozenset()
        """The scopes whose later changes will be found."""

    @contextmanager
    def one(self, topics: Mapping[str, TopicScope]) -> Iterator[ChangeStream]:
        """Return a new stream, and forget it at the end.  Raises Refusal (UNAVAILABLE)."""
        if len(self._streams) >= self._streams_max:
            message = (
                f"this server sends changes to {self._streams_max} pages already; close pages, or "
                f"read the list again every {RETRY_AFTER_S} s until one of them is closed"
            )
            raise Refusal(Code.UNAVAILABLE, message)
        stream = ChangeStream(topics)
        self._streams[stream] = None
        self._tell_ready(stream)
        if not stream.is_ready:
            self._is_new.set()
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield stream
        finally:
            del self._streams[stream]

    async def _look_on(self) -> None:
        """Look again and again while there are streams."""
        try:
            while self._streams:
                self._is_new.clear()
                await self._pause(pause_after(await self._look()))
        finally:
            self._looking, self._looked = None, frozenset()
            self._looks.forget()

    async def _look(self) -> float:
        """Look once, and tell all streams what has changed; return the cost in seconds."""
        scopes = frozenset(scope for stream in self._streams for scope in stream.scopes)
        self._looked &= scopes
        try:
            changes, cost_s = await THREADS.run(_look_timed, self._looks, scopes)
        except Exception:  # noqa: BLE001 - as in the chain: the client gets an incident number
            self._looked = frozenset()
            self._report_failure(incident("looking for changes"))
            return PAUSE_S_MIN
        self._looked = scopes
        frames = _Frames(changes)
        for stream in self._streams:
            frames.push_to(stream)
            self._tell_ready(stream)
        return cost_s

    def _tell_ready(self, stream: ChangeStream) -> None:
        """Tell a client that changes are sent from now on, if they are and it was not notified."""
        if not stream.is_ready and stream.scopes <= self._looked:
            stream.is_ready, stream.is_away = True, False
            stream.push(make_frame("ready"))

    def _report_failure(self, refusal: Refusal) -> None:
        """Tell each stream once that changes are not sent now; ``ready`` follows when they are."""
        document = json.dumps({"message": refusal.message}).encode()
        for stream in self._streams:
            if not stream.is_away:
                stream.push(make_frame("away", document=document))
            stream.is_ready, stream.is_away = False, True

    async def _pause(self, pause_s: float) -> None:
        """Wait for the next look; a new stream does not wait for all of the pause."""
        await asyncio.sleep(pause_s * EARLY)
        with anyio.move_on_after(pause_s * (1 - EARLY)):
            await self._is_new.wait()


def _look_timed(
    looks: ChangeLooks, scopes: frozenset[TopicScope]
) -> tuple[Mapping[TopicScope, bytes | None], float]:
    """Look once; return the changes and the cost in seconds."""
    wall_s, cpu_s = monotonic(), thread_time()
    changes = looks.look(scopes)
    return changes, cost_of(monotonic() - wall_s, thread_time() - cpu_s)


class _Frames:
    """The frames of one look; streams with the same topic share them."""

    def __init__(self, changes: Mapping[TopicScope, bytes | None]) -> None:
        self._changes = changes
        self._made: dict[tuple[str, TopicScope], bytes] = {}

    def push_to(self, stream: ChangeStream) -> None:
        """Push the changes of a stream's topics."""
        if not self._changes:
            return
        for text, scope in stream.topics.items():
            if scope in self._changes:
                stream.push(self._frame(text, scope))

    def _frame(self, text: str, scope: TopicScope) -> bytes:
        key = (text, scope)
        if key not in self._made:
            document = self._changes[scope]
            self._made[key] = (
                make_frame("resync", text)
                if document is None
                else make_frame(scope.kind.value, text, document)
            )
        return self._made[key]


class ChangeStreamResponse(StreamingResponse):
    """A response that sends changes until the client goes or its token ends."""

    media_type = "text/event-stream"

    def __init__(
        self,
        streams: ChangeStreams,
        topics: Mapping[str, TopicScope],
        admit: Callable[[], Awaitable[Caller]],
    ) -> None:
        """The stream is counted only when it is sent."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__((), headers=headers, media_type=self.media_type)
        self._streams = streams
        self._topics = topics
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, or the refusal if the server has too many streams."""
        try:
            with self._streams.one(self._topics) as stream:
                self.body_iterator = while_admitted(stream.frames(), self._admit)
                await super().__call__(scope, receive, send_within(scope, send))
        except Refusal as refusal:
            response = refusal_response(refusal)
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
            await response(scope, receive, send)


def send_within(scope: Scope, send: Send) -> Send:
    """Return a ``send`` that disconnects a client that reads nothing for ``SEND_S_MAX``."""
    connection: Any = scope.get("state", {}).get(CONNECTION)

    async def bounded_send(message: Message) -> None:
        with anyio.move_on_after(SEND_S_MAX) as sending:
            await send(message)
        if sending.cancelled_caught and connection is not None:
            connection.cut()

    return bounded_send
