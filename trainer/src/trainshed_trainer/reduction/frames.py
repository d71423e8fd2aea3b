"""What stands on the wire between a worker and a reducer, after their handshake.

A connection carries a stream of segments: each is one worker's contribution to the share of a
tensor that this reducer sums, announced by a SEGMENT frame and sent in DATA frames of any size.
Results come back in DATA frames alone, since the worker knows what it asked for.  Pieces have no
numbers: TCP keeps their order, and what is summed follows from positions in the stream alone.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError

#: Frame, reserved byte, reserved, bytes that follow.
HEAD = struct.Struct("<BBHI")
#: Round, elements, dtype, whether to average.
SEGMENT = struct.Struct("<QQBB6x")
#: Kind and index of the culprit, round (-1: none); UTF-8 text follows.
ERROR = struct.Struct("<Biq")

#: Longest DATA frame, in bytes.
PIECE_MAX = 4 << 20
#: Longest text of an ERROR or HEARTBEAT frame, in bytes.
TEXT_MAX = 512
#: Most elements of one segment: a share of 4 TiB is a broken header, not a tensor.
COUNT_MAX = 1 << 40
#: Rounds end here: an ERROR frame can name no later one.
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
    """What elements are; sums of all three are made in 32 bits (docs/sources/reduction.md 3.6)."""

    FLOAT32 = 1
    FLOAT16 = 2
    BFLOAT16 = 3

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 4 if self is Dtype.FLOAT32 else 2


class Segment(NamedTuple):
    """What every rank must announce alike for its streams to be summed."""

    round: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    dtype: Dtype
    average: bool

    @property
    def nbytes(self) -> int:
        """Length in the stream, without padding."""
        return self.count * self.dtype.itemsize

    def __str__(self) -> str:
        """As it stands in an error: ``round 17: 4096 float32, sum``."""
        how = "average" if self.average else "sum"
        return f"round {self.round}: {self.count} {self.dtype.name.lower()}, {how}"


def aligned(position: int) -> int:
    """The first place at or after ``position`` where a segment may start."""
    return -(-position // ALIGNMENT) * ALIGNMENT


def head(frame: Frame, nbytes: int = 0) -> bytes:
    """The 8 bytes before a frame's content."""
    return HEAD.pack(frame, 0, 0, nbytes)


def parse_head(data: bytes | bytearray) -> tuple[Frame, int]:
    """Kind and length of a frame; ``ValueError`` says what is wrong with it."""
    kind, zero, zeros, nbytes = HEAD.unpack(data)
    frame = Frame(kind)
    if zero or zeros:
        raise ValueError("a frame's reserved bytes are not zero")
    low, high = LIMITS[frame]
    if not low <= nbytes <= high:
        raise ValueError(f"a {frame.name} frame of {nbytes} bytes")
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
    """A SEGMENT frame with its head."""
    body = SEGMENT.pack(segment.round, segment.count, segment.dtype, segment.average)
    return head(Frame.SEGMENT, SEGMENT.size) + body


def parse_segment(body: bytes) -> Segment:
    """What a SEGMENT frame announces; ``ValueError`` says what is wrong with it."""
    number, count, dtype, average = SEGMENT.unpack(body)
    if not 0 < count <= COUNT_MAX:
        raise ValueError(f"a segment of {count} elements")
    if number > ROUND_MAX:
        raise ValueError(f"a round {number}")
    if average > 1:
        raise ValueError(f"an operation {average}")
    return Segment(number, count, Dtype(dtype), bool(average))


def text_of(body: bytes) -> str:
    """A text from the wire, fit for a log."""
    words = bytes(body).decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in words)


def cut(text: str) -> bytes:
    """A text for the wire, no longer than the wire takes."""
    return text.encode("utf-8", "replace")[:TEXT_MAX].decode("utf-8", "ignore").encode()


def error_frame(error: ReductionError) -> bytes:
    """An ERROR frame that says to others what ``error`` says here."""
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
