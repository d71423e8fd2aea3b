"""Values of the model survive the way into the database and back, whatever is in them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.explanation import Explanation
from trainshed.model.job import JobSpec
from trainshed.model.resources import JobDemand, Node, Seat
from trainshed.model.status import JobError
from trainshed.store import codec
from trainshed.wire import detect

REQUESTS = sorted((Path(__file__).parents[1] / "wire/requests").glob("*.json"))

#: Any text at all: also zero bytes and lone surrogates.
TEXTS = st.text(st.characters(codec=None), max_size=8)
st.register_type_strategy(str, TEXTS)
st.register_type_strategy(float, st.floats(allow_nan=False))
CODECS = {
    JobSpec: codec.SPEC,
    JobDemand: codec.DEMAND,
    Node: codec.NODE,
    Explanation: codec.EXPLANATION,
    JobError: codec.ERROR,
    tuple[Seat, ...]: codec.SEATS,
    tuple[str, ...]: codec.TEXTS,
    dict[str, str]: codec.LABELS,
}


@pytest.mark.parametrize("path", REQUESTS, ids=lambda p: p.stem)
def test_specs_of_recorded_requests_come_back(path):
    spec = detect.parse(json.loads(path.read_text())).spec
    assert codec.SPEC.decode(codec.SPEC.encode(spec)) == spec


@given(st.data())
@pytest.mark.parametrize("kind", CODECS, ids=str)
def test_any_value_comes_back(kind, data):
    value = data.draw(st.from_type(kind))
    text = CODECS[kind].encode(value)
    assert text.isascii()
    assert "\x00" not in text
    back = CODECS[kind].decode(text)
    assert back == value
    assert type(back) is type(value)


@given(st.datetimes(timezones=st.just(codec.to_time(0).tzinfo)))
def test_times_come_back_to_the_microsecond(time):
    assert codec.to_time(codec.to_ns(time)) == time
