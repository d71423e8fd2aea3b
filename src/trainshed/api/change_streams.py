"""Sends changes to open pages as server-sent events: one look at the database for all streams.

Each stream has a short queue of events.  A client that reads too slowly to keep up loses the events
in its queue and gets ``resync`` instead, so that the server's memory is bounded; one that reads
nothing for a minute is disconnected.  An ``EventSource`` cannot send the header that a call by
cookie needs, so pages read the stream with ``fetch``.
"""

import asyncio
import json
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from time import monotonic, thread_time
from typing import Any, Final

import anyio
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from trainshed.api.chain import incident
from trainshed.api.connections import CONNECTION
from trainshed.api.documents import refusal_response
from trainshed.api.threads import THREADS
from trainshed.model.access import Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.changes.comparing import PAUSE_S_MIN, cost_of, pause_after
from trainshed.service.changes.looks import ChangeLooks
from trainshed.service.changes.topics import TopicScope

#: The most streams of a server at once, those of one token or sign-in, and when a page may retry.
STREAMS_MAX: Final = 200
OWNER_STREAMS_MAX: Final = 20
RETRY_AFTER_S: Final = 5
#: The most events that wait for a slow reader, and their most bytes.
PENDING_MAX: Final = 64
PENDING_BYTES_MAX: Final = 1 << 19
#: Seconds without an event after which a comment is sent: proxies end silent connections.
COMMENT_S: Final = 15.0
#: The pause follows the mean cost of so many looks: one costly look delays few changes.
LOOKS_AVERAGED: Final = 8
#: Seconds between two checks of a token; its streams end within 2 s.
CHECK_S: Final = 1.5
#: The most seconds that a reader may leave the connection full.
SEND_S_MAX: Final = 60.0
#: A new stream may shorten the pause before the next look to this share.
EARLY: Final = 0.2

_COMMENT: Final = b":\n\n"


@dataclass(slots=True)
class StreamOwner:
    """A token, or the sign-in of a browser, with the checks that its streams share."""

    streams: int = 0
    checked_at_s: float = field(default_factory=monotonic)

    async def is_admitted(self, admit: Callable[[], Awaitable[Caller]]) -> bool:
        """Check the token if no stream has done so for ``CHECK_S``; return False if it has ended.

        A database that is unavailable for a moment ends no stream.
        """
        if monotonic() < self.checked_at_s + CHECK_S:
            return True
        self.checked_at_s = monotonic()
        try:
            await admit()
        except Refusal as refusal:
            if refusal.code is Code.UNAVAILABLE:
                return True
            self.checked_at_s = -math.inf  # its other streams check, and end too
            return False
        return True


class ChangeStream:
    """The events that wait for one client."""

    def __init__(self, topics: Mapping[str, TopicScope], owner: StreamOwner) -> None:
        """``topics`` are the scopes by the caller's words."""
        self.topics = topics
        self.scopes = frozenset(topics.values())
        self.owner = owner
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

    async def frames(self, admit: Callable[[], Awaitable[Caller]]) -> AsyncIterator[bytes]:
        """Yield events as they come, and a comment if none do, until the token ends.

        The timers are those of the event loop: a scope of anyio for each event of each stream took
        more time than sending the events.
        """
        loop = asyncio.get_running_loop()
        sent_at_s = monotonic()
        while await self.owner.is_admitted(admit):
            piece = self._take()
            if not piece and monotonic() - sent_at_s > COMMENT_S:
                piece = _COMMENT
            if piece:
                sent_at_s = monotonic()
                yield piece
            wait_s = max(0.0, self.owner.checked_at_s + CHECK_S - monotonic())
            timer = loop.call_later(wait_s, self._has_frames.set)
            try:
                await self._has_frames.wait()
            finally:
                timer.cancel()

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

    def __init__(
        self,
        looks: ChangeLooks,
        streams_max: int = STREAMS_MAX,
        count: Callable[[int], object] = int,
    ) -> None:
        """Nothing is looked at until the first stream.

        ``count`` gets 1 for a stream that begins and -1 for one that ends.
        """
        self._count = count
        self._looks = looks
        self._streams_max = streams_max
        self._streams: dict[ChangeStream, None] = {}
        self._owners: dict[str, StreamOwner] = {}
        self._looking: asyncio.Task[None] | None = None
        self._is_new = asyncio.Event()
        self._looked: frozenset[TopicScope] = frozenset()
        """The scopes of the last look: later changes of them are sent."""

    @contextmanager
    def one(self, topics: Mapping[str, TopicScope], owner: str) -> Iterator[ChangeStream]:
        """Return a new stream, and forget it at the end; ``owner`` is a token or sign-in.

        Raises Refusal (UNAVAILABLE) if the server or the owner has too many streams.
        """
        stream = ChangeStream(topics, self._add_owner(owner))
        self._streams[stream] = None
        stream.owner.streams += 1
        self._count(1)
        self._tell_ready(stream)
        if not stream.is_ready:
            self._is_new.set()
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield stream
        finally:
            del self._streams[stream]
            stream.owner.streams -= 1
            self._count(-1)
            if not stream.owner.streams:
                del self._owners[owner]

    def _add_owner(self, name: str) -> StreamOwner:
        """Return the owner of a new stream.  Raises Refusal."""
        owner = self._owners.get(name)
        if len(self._streams) >= self._streams_max:
            raise _refuse(f"this server sends changes to {self._streams_max} pages already")
        if owner is not None and owner.streams >= OWNER_STREAMS_MAX:
            message = f"this sign-in or token has {OWNER_STREAMS_MAX} streams of changes already"
            raise _refuse(message)
        return self._owners.setdefault(name, StreamOwner())

    async def _look_on(self) -> None:
        """Look again and again while there are streams."""
        costs_s: deque[float] = deque(maxlen=LOOKS_AVERAGED)
        try:
            self._is_new.clear()
            await self._look()
            await self._pause(PAUSE_S_MIN)  # the first look costs more than those that follow
            while self._streams:
                self._is_new.clear()
                costs_s.append(await self._look())
                await self._pause(pause_after(fmean(costs_s)))
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


def _refuse(message: str) -> Refusal:
    advice = (
        f"close pages, or read the list again every {RETRY_AFTER_S} s until one of them is closed"
    )
    return Refusal(Code.UNAVAILABLE, f"{message}; {advice}")


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
        owner: str,
        admit: Callable[[], Awaitable[Caller]],
    ) -> None:
        """The stream is counted, for a token or sign-in, only when it is sent.

        ``admit`` checks the caller again.
        """
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__((), headers=headers, media_type=self.media_type)
        self._streams = streams
        self._topics = topics
        self._owner = owner
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, or the refusal if there are too many streams."""
        try:
            with self._streams.one(self._topics, self._owner) as stream:
                self.body_iterator = stream.frames(self._admit)
                await super().__call__(scope, receive, send_within(scope, send))
        except Refusal as refusal:
            response = refusal_response(refusal)
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
            await response(scope, receive, send)


def send_within(scope: Scope, send: Send) -> Send:
    """Return a ``send`` that disconnects a client that reads nothing for ``SEND_S_MAX``."""
    connection: Any = scope.get("state", {}).get(CONNECTION)
    if connection is None:
        return send
    loop = asyncio.get_running_loop()

    async def bounded_send(message: Message) -> None:
        timer = loop.call_later(SEND_S_MAX, connection.cut)
        try:
            await send(message)
        finally:
            timer.cancel()

    return bounded_send
