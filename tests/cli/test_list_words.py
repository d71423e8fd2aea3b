"""``--filter`` and ``--sort-by`` of lists."""

import pytest

from trainshed.cli.jobs.list_words import make_arranger, terms_of
from trainshed.model.faults import UsageFault

ROWS = [
    {"jobId": "a", "state": "JOB_STATE_RUNNING", "n": "10", "createTime": "2026-02-01T00:00:00Z"},
    {"jobId": "b", "state": "JOB_STATE_FAILED", "n": "9", "labels": {"my-key": "Some words"}},
    {"jobId": "c", "state": "FAILED", "n": "2", "spec": {"isLarge": True}},
]


def ids(filter_text="", sort_by=""):
    return "".join(row["jobId"] for row in make_arranger(filter_text, sort_by)(ROWS))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "abc"),
        ("state=FAILED", "bc"),
        ("state = JOB_STATE_FAILED", "bc"),
        ("-state=FAILED", "a"),
        ("NOT state:fail", "a"),
        ("n>9", "a"),
        ("n<=9 AND n>=9", "b"),
        ("createTime>2026-01-31", "a"),
        ("createTime<2027", "a"),
        ('labels.my-key="Some words"', "b"),
        ("labels.my-key:*", "b"),
        ("labels.my-key:WORD*", "b"),
        ("jobId~[ac]", "ac"),
        ("jobId!=a state=FAILED NOT n=9", "c"),
        ("spec.isLarge=true", "c"),
        ("nothing=x", ""),
    ],
)
def test_a_filter_keeps_what_fulfils_all_of_it(text, expected):
    assert ids(text) == expected


@pytest.mark.parametrize(
    "text", ["a=1 OR b=2", "(a=1)", "a", "=1", "a=", 'a="x', "a=1b=2=", "a=1,"]
)
def test_what_is_not_understood_is_refused_and_never_guessed(text):
    if text in {"a=1b=2=", "a=1,"}:  # a word may hold anything but blanks, quotes and brackets
        assert len(list(terms_of(text))) == 1
        return
    with pytest.raises(UsageFault, match="--filter: cannot read"):
        list(terms_of(text))


@pytest.mark.parametrize(
    ("keys", "expected"), [("n", "cba"), ("~n", "abc"), ("state,~jobId", "cba"), ("~state", "abc")]
)
def test_numbers_sort_as_numbers_and_equals_keep_their_order(keys, expected):
    assert ids(sort_by=keys) == expected
