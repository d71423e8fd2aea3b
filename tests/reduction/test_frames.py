"""What stands on the wire: all of it can be read back, and nothing else is taken for it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed_trainer.reduction import frames
from trainshed_trainer.reduction.errors import (
    ITSELF,
    Culprit,
    Kind,
    ReductionError,
    name_culprit,
    reducer_error,
)
from trainshed_trainer.reduction.frames import Dtype, Frame, Segment

HEADS = st.builds(
    lambda kind, nbytes: (kind, min(max(nbytes, frames.LIMITS[kind][0]), frames.LIMITS[kind][1])),
    st.sampled_from(Frame),
    st.integers(0, frames.PIECE_MAX),
)
SEGMENTS = st.builds(
    Segment,
    st.integers(0, frames.ROUND_MAX),
    st.integers(1, frames.COUNT_MAX),
    st.sampled_from(Dtype),
    st.booleans(),
)
BLAMES = st.builds(Culprit, st.sampled_from([Kind.WORKER, Kind.REDUCER]), st.integers(0, 4096))
ERRORS = st.builds(
    lambda text, blame, number: ReductionError(text, blame=blame, round_=number),
    st.text(max_size=1000),
    st.none() | BLAMES,
    st.none() | st.integers(0, frames.ROUND_MAX),
)
PARSERS = [
    (frames.parse_head, frames.HEAD.size, frames.HEAD.size),
    (frames.parse_segment, frames.SEGMENT.size, frames.SEGMENT.size),
    (frames.parse_error, *frames.LIMITS[Frame.ERROR]),
]


@given(HEADS)
def test_a_head_is_read_as_it_was_written(frame):
    assert frames.parse_head(frames.head(*frame)) == frame


@given(SEGMENTS)
def test_a_segment_is_read_as_it_was_written(segment):
    sent = frames.segment_frame(segment)
    front, body = sent[: frames.HEAD.size], sent[frames.HEAD.size :]
    assert frames.parse_head(front) == (Frame.SEGMENT, len(body))
    assert frames.parse_segment(body) == segment


@given(ERRORS)
def test_an_error_says_on_the_other_side_what_it_said_here(error):
    """But for characters that a log cannot show, and what is too long for a frame."""
    sent = frames.error_frame(error)
    front, body = sent[: frames.HEAD.size], sent[frames.HEAD.size :]
    assert frames.parse_head(front) == (Frame.ERROR, len(body))
    heard = frames.parse_error(body)
    assert (heard.blame, heard.culprit, heard.round) == (error.blame, error.culprit, error.round)
    words = str(error).encode("utf-8", "replace")[: frames.TEXT_MAX].decode("utf-8", "ignore")
    assert str(heard) == "".join(c if c.isprintable() else "?" for c in words)


@given(st.data())
def test_arbitrary_bytes_are_a_frame_or_a_value_error(data):
    parse, low, high = data.draw(st.sampled_from(PARSERS))
    with contextlib.suppress(ValueError):
        parse(data.draw(st.binary(min_size=low, max_size=high)))


@given(st.sampled_from(Frame), st.integers(0, (1 << 32) - 1) | st.integers(0, 1000))
def test_no_head_promises_more_than_its_kind_may_have(frame, nbytes):
    low, high = frames.LIMITS[frame]
    data = frames.HEAD.pack(frame, 0, 0, nbytes)
    if low <= nbytes <= high:
        assert frames.parse_head(data) == (frame, nbytes)
    else:
        with pytest.raises(ValueError, match=f"a {frame.name} frame .* got {nbytes}$"):
            frames.parse_head(data)


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 65_535))
def test_a_head_of_no_kind_or_with_reserved_bytes_is_refused(kind, zero, zeros):
    data = frames.HEAD.pack(kind, zero, zeros, 24)
    if kind not in set(Frame) or zero or zeros:
        with pytest.raises(ValueError, match=r"Frame|reserved"):
            frames.parse_head(data)


@given(st.text(st.characters(codec=None), max_size=600))
def test_a_text_is_cut_between_characters(text):
    """Surrogates, as names of files may have, cannot be sent and are replaced."""
    sent = frames.cut(text)
    assert len(sent) <= frames.TEXT_MAX
    assert text.encode("utf-8", "replace").startswith(sent)
    sent.decode()


@pytest.mark.parametrize(
    "body",
    [
        frames.SEGMENT.pack(0, 0, Dtype.FLOAT32, 0),
        frames.SEGMENT.pack(0, frames.COUNT_MAX + 1, Dtype.FLOAT32, 0),
        frames.SEGMENT.pack(frames.ROUND_MAX + 1, 1, Dtype.FLOAT32, 0),
        frames.SEGMENT.pack(0, 1, 4, 0),
        frames.SEGMENT.pack(0, 1, Dtype.FLOAT32, 2),
    ],
)
def test_a_segment_that_nobody_can_sum_is_refused(body):
    with pytest.raises(ValueError, match=r"\d"):
        frames.parse_segment(body)


def test_every_kind_of_frame_has_limits():
    assert set(frames.LIMITS) == set(Frame)


@given(st.integers(0, 1 << 45))
def test_segments_begin_where_any_element_may(position):
    place = frames.aligned(position)
    assert place % frames.ALIGNMENT == 0
    assert 0 <= place - position < frames.ALIGNMENT


def test_a_reducer_that_speaks_reducer_error_is_named_by_who_hears_it():
    sent = frames.error_frame(reducer_error("was asked to end"))
    heard = frames.parse_error(sent[frames.HEAD.size :])
    assert heard.blame.index == ITSELF
    named = name_culprit(Culprit(Kind.WORKER, 3), heard)
    assert (str(named), named.culprit) == ("worker 3 was asked to end", "worker 3")
    assert name_culprit(Culprit(Kind.REDUCER, 1), named) is named
    nobody = ReductionError("a newer epoch")
    assert name_culprit(Culprit(Kind.REDUCER, 1), nobody) is nobody
