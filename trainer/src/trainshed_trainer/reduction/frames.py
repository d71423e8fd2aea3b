"""The frames between a worker and a reducer after their handshake.

A connection carries a stream of segments.  A segment is one worker's contribution to the part of a
tensor that this reducer sums; a SEGMENT frame announces it, and DATA frames of any size carry it.
Results come back in DATA frames alone, because the worker knows which results it expects.  Frames
have no numbers: TCP keeps their order, and the position in the stream identifies the element.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError

#: Kind of frame, two reserved fields, bytes that follow.
HEAD = struct.Struct("<BBHI")
#: Round, elements, dtype, whether to average.
SEGMENT = struct.Struct("<QQBB6x")
#: Kind and index of the culprit, round (-1: none); UTF-8 text follows.
ERROR = struct.Struct("<Biq")

#: Longest DATA frame, in bytes.
PIECE_MAX = 4 << 20
#: Longest text of an ERROR or HEARTBEAT frame, in bytes.
TEXT_MAX = 512
#: Most elements of one segment; a share above 4 TiB means a broken header.
COUNT_MAX = 1 << 40
#: The last round: an ERROR frame cannot represent a later one.
ROUND_MAX = 1 << 62
#: Segments start at multiples of this in the stream, so that sums are aligned.
ALIGNMENT = 64


class Frame(IntEnum):
    """Kinds of frames; HEARTBEAT may carry a text for the log."""

    DATA = 1
    SEGMENT = 2
    HEARTBEAT = 3
    ERROR = 4
    GOODBYE = 5
    READY = 6


class Dtype(IntEnum):
    """Type of the elements; all types are summed in 32 bits (docs/sources/reduction.md 3.6)."""

    FLOAT32 = 1
    FLOAT16 = 2
    BFLOAT16 = 3

    @property
    def itemsize(self) -> int:
        """Return the number of bytes of an element."""
        return 4 if self is Dtype.FLOAT32 else 2


class Segment(NamedTuple):
    """The description of a segment, which must be the same on every rank."""

    round: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    dtype: Dtype
    average: bool

    @property
    def nbytes(self) -> int:
        """Return the bytes of the segment in the stream, without padding."""
        return self.count * self.dtype.itemsize

    def __str__(self) -> str:
        """Return the text for errors, such as ``round 17: 4096 float32, sum``."""
        how = "average" if self.average else "sum"
        return f"round {self.round}: {self.count} {self.dtype.name.lower()}, {how}"


def aligned(position: int) -> int:
    """Return the first position at or after ``position`` at which a segment may start."""
    return -(-position // ALIGNMENT) * ALIGNMENT


def head(frame: Frame, nbytes: int = 0) -> bytes:
    """Render the 8 bytes before a frame's content."""
    return HEAD.pack(frame, 0, 0, nbytes)


def parse_head(data: bytes | bytearray) -> tuple[Frame, int]:
    """Parse the kind and the length of a frame; ``ValueError`` if it is malformed."""
    kind, zero, zeros, nbytes = HEAD.unpack(data)
    frame = Frame(kind)
    if zero or zeros:
        raise ValueError("a frame's reserved bytes are not zero")
    low, high = LIMITS[frame]
    if not low <= nbytes <= high:
        raise ValueError(f"a {frame.name} frame must have {low} to {high} bytes, got {nbytes}")
    return frame, nbytes


LIMITS = {
    Frame.DATA: (1, PIECE_MAX),
    Frame.SEGMENT: (SEGMENT.size, SEGMENT.size),
    Frame.HEARTBEAT: (0, TEXT_MAX),
    Frame.ERROR: (ERROR.size, ERROR.size + TEXT_MAX),
    Frame.GOODBYE: (0, 0),
    Frame.READY: (0, 0),
}


def segment_frame(segment: Segment) -> bytes:
    """Render a SEGMENT frame with its head."""
    body = SEGMENT.pack(segment.round, segment.count, segment.dtype, segment.average)
    return head(Frame.SEGMENT, SEGMENT.size) + body


def parse_segment(body: bytes) -> Segment:
    """Parse a SEGMENT frame; ``ValueError`` if it is malformed."""
    number, count, dtype, average = SEGMENT.unpack(body)
    if not 0 < count <= COUNT_MAX:
        raise ValueError(f"a segment must have 1 to {COUNT_MAX} elements, got {count}")
    if number > ROUND_MAX:
        raise ValueError(f"a round must be at most {ROUND_MAX}, got {number}")
    if average > 1:
        raise ValueError(f"an operation must be 0 (sum) or 1 (average), got {average}")
    return Segment(number, count, Dtype(dtype), bool(average))


def text_of(body: bytes) -> str:
    """Decode a text from the wire, with unprintable characters replaced for the log."""
    text = bytes(body).decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)


def cut(text: str) -> bytes:
    """Encode a text for the wire, shortened to ``TEXT_MAX`` bytes."""
    return text.encode("utf-8", "replace")[:TEXT_MAX].decode("utf-8", "ignore").encode()


def error_frame(error: ReductionError) -> bytes:
    """Render an ERROR frame with the text, the culprit and the round of ``error``."""
    blame = error.blame or Culprit(Kind.NOBODY, 0)
    number = -1 if error.round is None else error.round
    body = ERROR.pack(blame.kind, blame.index, number) + cut(str(error))
    return head(Frame.ERROR, len(body)) + body


def parse_error(body: bytes) -> ReductionError:
    """Parse an ERROR frame; ``ValueError`` if it is malformed."""
    kind, index, number = ERROR.unpack(body[: ERROR.size])
    blame = Culprit(Kind(kind), index) if kind else None
    return ReductionError(
        text_of(body[ERROR.size :]), blame=blame, round_=None if number < 0 else number
    )
