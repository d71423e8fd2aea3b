"""Whatever a body holds, what it costs is bounded, and grows as it does."""

import os
import sys

import pytest
from benchmarks.service import bodies

from trainshed.api.documents import refusal_response
from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.status import VIOLATIONS_MAX, status_json

#: What of the largest body is tried; all of it in `make test-full`.
FACTOR = 1 if os.environ.get("TRAINSHED_CHAOS") == "full" else 1 / 8
SIZE = int(FACTOR * 8_000_000)


@pytest.fixture(scope="module")
def way(tmp_path_factory):
    with bodies.way(str(tmp_path_factory.mktemp("bodies"))) as way:
        yield way


def calls_of(take, body):
    """How many functions are called, a measure that no other program changes; and the answer."""
    count = 0

    def counted(*_):
        nonlocal count
        count += 1

    sys.setprofile(counted)
    try:
        answer = take(body)
    finally:
        sys.setprofile(None)
    return count, answer


def half_and_whole(shape, values):
    """Two bodies: the second has about so many values, the first half the items and the bytes."""
    items = bodies.items_of(shape, int(values))
    return tuple(bodies.body_of(shape, n, SIZE * n // items) for n in (items // 2 or 1, items))


#: What differs most in what it takes.
WIDE = {"unknown keys", "arguments", "conditions without a value", "deep values of another kind"}
SHAPES = [
    pytest.param(name, marks=() if name in WIDE else pytest.mark.full) for name in bodies.SHAPES
]


@pytest.mark.parametrize("name", SHAPES)
def test_twice_the_body_costs_at_most_two_and_a_half_times(way, name):
    """In calls, and in processor time, where one of several tries must be free of strangers."""
    shape = bodies.SHAPES[name]
    half, whole = half_and_whole(shape, 19_000 * FACTOR)
    (few, _), (many, answer_bytes) = (calls_of(way.take, body) for body in (half, whole))
    assert many <= bodies.RATIO_MAX * few
    assert answer_bytes <= bodies.ANSWER_BYTES_MAX
    half, whole = half_and_whole(shape, 19_000 * max(FACTOR, 1 / 3))
    half_s, whole_s = bodies.times(way.take, half, whole)
    assert whole_s <= bodies.RATIO_MAX * max(half_s, bodies.LEAST_S)


@pytest.mark.parametrize("name", [*SHAPES, *bodies.RAW])
def test_a_body_takes_a_bounded_memory_and_gives_it_back(way, name):
    if shape := bodies.SHAPES.get(name):
        body = bodies.body_of(shape, int(bodies.items_of(shape) * FACTOR), SIZE)
    else:
        body = bodies.RAW[name](SIZE)
    peak_mb, left_mb = bodies.memory_mb(way.take, body)
    assert peak_mb + SIZE / 1e6 <= bodies.PEAK_MB_MAX * FACTOR + 2  # what any call takes
    assert left_mb <= bodies.LEFT_MB_MAX


@pytest.mark.parametrize("count", [1, VIOLATIONS_MAX, VIOLATIONS_MAX + 1, 5000])
@pytest.mark.parametrize("text", ["short", "a" * 10_000, "\U0001f600" * 3000, "\x1b" * 5000])
def test_an_answer_says_how_many_more_violations_there_are(count, text):
    violations = [
        Violation(field=f"f{i}.{text}", rule="wrong-type", message=text, accepted=text)
        for i in range(count)
    ]
    refusal = Refusal(Code.INVALID_ARGUMENT, text * 3, violations)
    assert len(refusal_response(refusal).body) <= bodies.ANSWER_BYTES_MAX
    field_violations = status_json(refusal)["error"]["details"][0]["fieldViolations"]
    assert 0 < len(field_violations) <= VIOLATIONS_MAX
    if len(field_violations) == count:
        assert field_violations[-1]["field"].startswith(f"f{count - 1}.")
    else:
        assert field_violations[-1] == {
            "field": "",
            "description": f"and {count - len(field_violations) + 1} more",
        }
        assert field_violations[0]["field"].startswith("f0.")
