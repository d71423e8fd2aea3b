"""Streams a job's log line by line, while the caller's token is valid."""

import json
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from time import monotonic
from typing import Final

import anyio
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from trainshed.api.threads import LOG_THREADS, THREADS
from trainshed.model.access import Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.log.stream import LogCursor
from trainshed.service.log.streams import Streams
from trainshed.wire.native_v1 import line_json

NDJSON: Final = "application/x-ndjson"
#: Seconds and bytes of one turn in a thread, of which there are two for all readers.
TURN_S: Final = 0.02
TURN_BYTES: Final = 1 << 18
#: While other calls run, a reader rests for so many times its turn: both need the interpreter.
REST_TURNS: Final = 19
#: Seconds between two reads of a quiet job's log.
FOLLOW_S = 0.2
#: Seconds between two checks of the token of a stream's caller.
ADMITTED_S = 1.0


class LogStream(StreamingResponse):
    """A response that streams a log; refused if the caller has too many streams."""

    def __init__(
        self,
        streams: Streams,
        caller: Caller,
        body: AsyncIterator[bytes],
        *,
        media_type: str = NDJSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """The stream is counted for its caller only when it is sent."""
        super().__init__(body, media_type=media_type, headers=headers)
        self._streams = streams
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, and count it for the caller.  Raises Refusal."""
        with self._streams.one(self._caller):
            await super().__call__(scope, receive, send)


def stream_lines(
    cursor: LogCursor,
    admit: Callable[[], Awaitable[Caller]],
    *,
    follow: bool,
    starts: Sequence[Iterator[None]] = (),
) -> AsyncIterator[bytes]:
    """Yield the log's lines as JSON texts; ``admit`` checks the caller's token again.

    ``starts`` move the cursor to its first line, step by step.  ``follow`` is whether to send new
    lines until the job ends.
    """
    return while_admitted(_read_lines(cursor, follow=follow, starts=starts), admit)


def stream_pieces(
    pieces: Generator[bytes, None, None], admit: Callable[[], Awaitable[Caller]]
) -> AsyncIterator[bytes]:
    """Yield pieces that are made in a thread, turn by turn; none is made after the reader left.

    An empty piece only lets the turn end.
    """
    return while_admitted(_take_turns(_Turns(pieces)), admit)


async def _take_turns(turns: "_Turns") -> AsyncIterator[bytes]:
    is_over = False
    try:
        while not is_over:
            begin_s = monotonic()
            data, is_over = await LOG_THREADS.run(turns.take)
            took_s = monotonic() - begin_s
            yield data
            if THREADS.calls and not is_over:
                await anyio.sleep(REST_TURNS * min(took_s, 2 * TURN_S))
    finally:
        turns.close()


class _Turns:
    """Makes pieces in turns; a thread may still be in a turn when the reader leaves."""

    def __init__(self, pieces: Generator[bytes, None, None]) -> None:
        self._pieces = pieces
        self._lock = threading.Lock()
        self._is_left = False

    def take(self) -> tuple[bytes, bool]:
        """Return the pieces of one turn, and whether they were the last."""
        with self._lock:
            taken = self._take()
        if self._is_left:
            self.close()
        return taken

    def _take(self) -> tuple[bytes, bool]:
        until_s = monotonic() + TURN_S
        data = bytearray()
        for piece in self._pieces:
            data += piece
            if self._is_left or monotonic() > until_s or len(data) > TURN_BYTES:
                return bytes(data), False
        return bytes(data), True

    def close(self) -> None:
        """End the making, and close its files: now, or when the turn of a thread ends."""
        self._is_left = True
        if self._lock.acquire(blocking=False):
            try:
                self._pieces.close()
            finally:
                self._lock.release()


async def while_admitted(
    lines: AsyncIterator[bytes], admit: Callable[[], Awaitable[Caller]]
) -> AsyncIterator[bytes]:
    """End a stream when its caller's token is no longer valid."""
    checked_at_s = monotonic()
    async for piece in lines:
        if monotonic() - checked_at_s > ADMITTED_S:
            try:
                await admit()
            except Refusal as refusal:
                if refusal.code is not Code.UNAVAILABLE:  # the database is unavailable for a moment
                    return
            checked_at_s = monotonic()
        if piece:
            yield piece


async def _read_lines(
    cursor: LogCursor, *, follow: bool, starts: Sequence[Iterator[None]]
) -> AsyncIterator[bytes]:
    """Yield existing lines, then new ones.  A thread is in use only during a read."""
    for start in starts:
        while not await LOG_THREADS.run(_is_finished, start):
            yield b""
    while True:
        written = await LOG_THREADS.run(_render_lines, cursor)
        yield written
        if cursor.has_all and not follow:
            return
        if cursor.must_settle:  # the two threads for logs are for short turns
            await THREADS.run(cursor.settle_end)
        if written or not cursor.has_all:
            continue
        if cursor.is_over:
            return
        yield b""
        await anyio.sleep(FOLLOW_S)


def _is_finished(steps: Iterator[None]) -> bool:
    """Take the steps of one turn; return whether they were the last."""
    until_s = monotonic() + TURN_S
    return all(monotonic() <= until_s for _ in steps)


def _render_lines(cursor: LogCursor) -> bytes:
    texts = (json.dumps(line_json(line), ensure_ascii=False) for line in cursor.read())
    return "".join(f"{text}\n" for text in texts).encode("utf-8", "backslashreplace")
