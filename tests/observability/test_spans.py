"""The header of the caller's span, and the ids of a job's spans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.observability.spans import (
    CHILDREN_MAX,
    RequestTrace,
    TraceParent,
    attempt_parent,
    job_span_id,
    job_trace_id,
    parse_traceparent,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@given(
    st.integers(1, (1 << 128) - 1),
    st.integers(1, (1 << 64) - 1),
    st.booleans(),
)
def test_a_header_that_we_write_is_read_back(trace_id, span_id, is_sampled):
    parent = TraceParent(trace_id, span_id, is_sampled)
    assert parse_traceparent(parent.text) == parent


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"01-{TRACE}-{SPAN}-01-{'x' * 600}",
    ],
)
def test_a_malformed_header_is_none(text):
    assert parse_traceparent(text) is None


def test_a_later_version_may_have_more_fields():
    assert parse_traceparent(f"01-{TRACE}-{SPAN}-03-more") == parse_traceparent(
        f"00-{TRACE}-{SPAN}-01"
    )
    assert not parse_traceparent(f"00-{TRACE}-{SPAN}-02").is_sampled


def test_ids_of_a_job_stay_the_same_in_each_release():
    assert job_trace_id(5, 77) == job_trace_id(5, 77)
    assert f"{job_trace_id(5, 77):032x}" == "2f6c76aef9f72ffc12cdbd861aba7f75"
    assert f"{job_span_id(5, 77, 'job'):016x}" == "82c08b53e9538b37"
    assert len({job_trace_id(i, u) for i in range(5) for u in range(5)}) == 25
    assert attempt_parent(5, 77, 1) != attempt_parent(5, 77, 2)


def test_a_request_keeps_only_its_first_parts():
    trace = RequestTrace(None)
    for number in range(CHILDREN_MAX + 3):
        trace.add_child("store.commit", number, number + 1)
    assert [part.start_ns for part in trace.children] == list(range(CHILDREN_MAX))
    assert RequestTrace(TraceParent(1, 2)).trace_id == 1
