"""What a report says of a job's exchanges, compared and told in a line."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.reduction_report import ReductionReport, report_of
from trainshed.planning.achieved import achieved

DOCUMENT = {
    "version": 1,
    "world": 4,
    "reducers": 4,
    "rounds": 812,
    "bytes": 52_000_000_000,
    "seconds": 2180.0,
    "goodput_mbps": 190.7,
    "worker_link_mbps": 200.0,
    "reducer_link_mbps": [200.0, 200.0, 200.0, 200.0],
    "ring_mbps": 133.3,
}
REPORT = report_of(DOCUMENT)
BEYOND = "Reduction: 2.71 times a ring of links that were measured too slow"
ACHIEVED = "Reduction: 1.43 times a ring of the same links"


def test_achieved_stands_beside_what_the_links_promised():
    note = achieved(REPORT)
    assert note.sentence == (f"{ACHIEVED}; predicted 1.50 (4 reducers, 812 rounds, 52 GB).")
    assert note.numbers["gain"] == pytest.approx(1.431, abs=1e-3)
    assert (note.numbers["predicted"], note.numbers["planned"]) == (1.5, None)


def test_the_catalog_s_promise_is_told_where_it_was_another():
    assert achieved(REPORT, 1.5).sentence == achieved(REPORT).sentence
    note = achieved(REPORT, 1.31)
    assert note.sentence.endswith("52 GB); predicted for the catalog's machines: 1.31.")
    assert note.numbers["planned"] == 1.31


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"rounds": 0, "size_bytes": 0, "goodput_mbps": 0.0},
            "Reduction: nothing went through the reducers (4 reducers, 0 rounds, 0 B).",
        ),
        (
            {"world": 1, "reducers": 1, "rounds": 1, "ring_mbps": 0.0},
            "Reduction: 191 Mbit/s, and no ring to compare with (1 reducer, 1 round, 52 GB).",
        ),
        (
            {"worker_link_mbps": 0.0},
            f"{ACHIEVED} (4 reducers, 812 rounds, 52 GB).",
        ),
        (
            {"goodput_mbps": 361.0},
            f"{BEYOND}; predicted 1.50 (4 reducers, 812 rounds, 52 GB).",
        ),
        (
            {"reducer_link_mbps": (), "reducers": 0},
            f"{ACHIEVED}; predicted 1.00 (0 reducers, 812 rounds, 52 GB).",
        ),
    ],
)
def test_what_cannot_be_compared_is_told_without(changes, sentence):
    assert achieved(replace(REPORT, **changes)).sentence == sentence


FINITE = st.floats(0, 1e18) | st.integers(0, 10**18)
REPORTS = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "world": st.integers(0, 2**16),
        "reducers": st.integers(0, 2**16),
        "rounds": st.integers(0, 2**62),
        "bytes": st.integers(0, 2**62),
        "seconds": FINITE,
        "goodput_mbps": FINITE,
        "worker_link_mbps": FINITE,
        "reducer_link_mbps": st.lists(FINITE, max_size=5),
        "ring_mbps": FINITE | st.none(),
    }
)


@given(REPORTS, st.none() | st.floats(0, 10))
def test_any_report_has_its_sentence_and_numbers_that_json_can_hold(document, planned):
    note = achieved(report_of(json.loads(json.dumps(document))), planned)
    assert note.sentence.startswith("Reduction: ")
    assert "nan" not in note.sentence
    json.dumps(note.numbers, allow_nan=False)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(REPORTS, st.data())
def test_a_document_with_anything_in_it_is_a_report_or_refused(document, data):
    name = data.draw(st.sampled_from(sorted(document)))
    document[name] = data.draw(ANYTHING)
    try:
        report = report_of(document)
    except ValueError:
        return
    assert isinstance(report, ReductionReport)
    assert achieved(report).sentence


@pytest.mark.parametrize(
    "wrong",
    [
        None, [], "report", {}, {**DOCUMENT, "version": 2}, {**DOCUMENT, "world": -1},
        {**DOCUMENT, "world": True}, {**DOCUMENT, "rounds": 1.5}, {**DOCUMENT, "seconds": "1"},
        {**DOCUMENT, "goodput_mbps": float("nan")}, {**DOCUMENT, "ring_mbps": float("inf")},
        {**DOCUMENT, "worker_link_mbps": -1.0}, {**DOCUMENT, "reducer_link_mbps": 3},
        {**DOCUMENT, "reducer_link_mbps": [1, "2"]}, {**DOCUMENT, "bytes": 1 << 80},
        {name: value for name, value in DOCUMENT.items() if name != "seconds"},
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(wrong):
    with pytest.raises(ValueError, match=r"report|number|rates"):
        report_of(wrong)
