"""The filters of lists: AIP-160's precedence, both dialects' words, refusals that help."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.filters import AllOf, AnyOf, Compare, Not
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobState
from trainshed.wire.aiplatform_v1.words import STATE, jobs_filter, pipelines_filter
from trainshed.wire.filter_text import DEPTH_MAX, TERMS_MAX
from trainshed.wire.list_filter import LENGTH_MAX, NOTHING
from trainshed.wire.ml_v1.words import jobs_filter as ml_filter

#: States that a filter can name; clients take a job that is being restarted for a running one.
#: Those that have a word of their own.
ASKED = [s for s in JobState if s not in {JobState.RESTARTING, JobState.ENQUEUED}]


def compare(field, operator, value):
    return Compare(field=field, operator=operator, value=value)


NAME_A, NAME_B, NAME_C = (compare("display_name", "=", name) for name in "abc")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("jobId:census*", compare("job_id", ":", "census*")),
        (
            "jobId:rnn* AND state:FAILED",
            AllOf((compare("job_id", ":", "rnn*"), compare("state", "=", "FAILED"))),
        ),
        ("labels.team=red", compare("labels.team", "=", "red")),
        ("", AllOf()),
        ("  \t", AllOf()),
    ],
)
def test_the_filters_of_ml_v1_s_own_document_are_read(text, meaning):
    assert ml_filter(text) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ('display_name="a"', NAME_A),
        ("displayName = a", NAME_A),
        ('display_name:"my \\"job*"', compare("display_name", ":", 'my "job*')),
        ("state=JOB_STATE_PENDING", compare("state", "=", "PREPARING")),
        ("state!=JOB_STATE_RUNNING", compare("state", "!=", "RUNNING")),
        ("state=JOB_STATE_PAUSED", NOTHING),
        ("state!=JOB_STATE_EXPIRED", AllOf()),
        ("labels.k:*", compare("labels.k", ":", "*")),
        ("labels:k", compare("labels.k", ":", "*")),
        ('labels."a-b"!=c', compare("labels.a-b", "!=", "c")),
        ("labels.a-b=c", compare("labels.a-b", "=", "c")),
        (
            'create_time>="2026-11-21T00:02:39Z"',
            compare("create_time", ">=", datetime(2026, 11, 21, 0, 2, 39, tzinfo=UTC)),
        ),
        (
            "createTime<2026-11-21T01:00:00.5+01:00",
            compare("create_time", "<", datetime(2026, 11, 21, 0, 0, 0, 500_000, tzinfo=UTC)),
        ),
        ("NOT display_name=a", Not(NAME_A)),
        ("-display_name=a", Not(NAME_A)),
    ],
)
def test_the_documented_comparisons_of_vertex_are_read(text, meaning):
    assert jobs_filter(text) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("{a} OR {b} AND {c}", AllOf((AnyOf((NAME_A, NAME_B)), NAME_C))),
        ("{a} AND {b} OR {c}", AllOf((NAME_A, AnyOf((NAME_B, NAME_C))))),
        ("({a} AND {b}) OR {c}", AnyOf((AllOf((NAME_A, NAME_B)), NAME_C))),
        ("{a} {b}", AllOf((NAME_A, NAME_B))),
        ("NOT {a} OR {b}", AnyOf((Not(NAME_A), NAME_B))),
        ("NOT ({a} OR {b})", Not(AnyOf((NAME_A, NAME_B)))),
    ],
)
def test_or_binds_tighter_than_and(text, meaning):
    names = {name: f"display_name={name}" for name in "abc"}
    assert jobs_filter(text.format(**names)) == meaning


def test_pipelines_have_states_and_a_field_of_their_own():
    tree = pipelines_filter("state=PIPELINE_STATE_RUNNING training_task_definition:*custom*")
    definition = compare("training_task_definition", ":", "*custom*")
    assert tree == AllOf((compare("state", "=", "RUNNING"), definition))
    with pytest.raises(Refusal, match="PIPELINE_STATE_QUEUED"):
        pipelines_filter("state=JOB_STATE_RUNNING")
    with pytest.raises(Refusal, match="training_task_definition"):
        pipelines_filter("jobId=1")


@pytest.mark.parametrize("state", ASKED)
def test_every_state_can_be_asked_for_in_the_dialect_s_word(state):
    assert jobs_filter(f"state=JOB_STATE_{STATE[state]}") == compare("state", "=", state.value)
    assert ml_filter(f'state="{state.value}"') == compare("state", "=", state.value)


@pytest.mark.parametrize(
    ("text", "at", "accepted"),
    [
        ("owner=me", 1, "display_name, state, create_time, labels.KEY"),
        ("state=RUNNING", 1, "JOB_STATE_RUNNING"),
        ("state<JOB_STATE_RUNNING", 1, "!= : ="),
        ("create_time:2026", 1, "< <= = > >="),
        ("create_time>yesterday", 1, "2026-11-21T00:02:39Z"),
        ("create_time>2026-13-21T00:00:00Z", 1, "a time that exists"),
        ("display_name", 1, "a field and an operator: display_name"),
        ("SEARCH(a)", 1, "a field and an operator: display_name"),
        ("display_name=~a", 1, "display_name with one of"),
        ("display_name=", 14, "a value"),
        ("display_name=a AND", 19, "a field"),
        ("display_name=a OR OR", 19, "a comparison"),
        ("(display_name=a", 16, "the '(' at character 1"),
        ("display_name=a)", 15, "the end of the filter"),
        ("display_name.x=a", 1, "display_name without a dot"),
        ("labels=a", 1, "labels.KEY=VALUE"),
        ("labels.k<a", 1, "labels.KEY with one of"),
        ("labels.=a", 8, "the name of a field or label"),
    ],
)
def test_a_refusal_names_the_place_and_what_is_accepted(text, at, accepted):
    with pytest.raises(Refusal) as refused:
        jobs_filter(text)
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert f"at character {at}: " in refused.value.message
    assert accepted in refused.value.message


def test_depth_and_length_have_an_end():
    deep = "(" * (DEPTH_MAX + 1) + "display_name=a" + ")" * (DEPTH_MAX + 1)
    assert jobs_filter(deep[1:-1]) == NAME_A
    with pytest.raises(Refusal, match="at most 50 deep"):
        jobs_filter(deep)
    with pytest.raises(Refusal, match="characters"):
        jobs_filter(" " * (LENGTH_MAX + 1))
    with pytest.raises(Refusal, match=f"at most {TERMS_MAX} comparisons"):
        jobs_filter("labels:k " * (TERMS_MAX + 1))


def test_a_list_of_values_is_one_comparison_each():
    tree = jobs_filter("state=(JOB_STATE_FAILED OR JOB_STATE_CANCELLED) -- over")
    states = [compare("state", "=", state) for state in ("FAILED", "CANCELLED")]
    assert tree == AnyOf(tuple(states))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
KEY = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
TIME = st.integers(0, 2**51).map(lambda us: datetime.fromtimestamp(us / 1e6, tz=UTC))
COMPARISON = st.one_of(
    st.builds(compare, st.just("display_name"), st.sampled_from(["=", "!=", ":"]), TEXT),
    st.builds(
        compare,
        st.just("state"),
        st.sampled_from(["=", "!="]),
        st.sampled_from([state.value for state in ASKED]),
    ),
    st.builds(compare, st.just("create_time"), st.sampled_from(["<", ">=", "!="]), TIME),
    st.builds(compare, KEY.map("labels.{}".format), st.sampled_from(["=", "!=", ":"]), TEXT),
)


FILTER = st.recursive(
    COMPARISON,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=3).map(lambda items: AllOf(tuple(items))),
        st.lists(inner, min_size=2, max_size=3).map(lambda items: AnyOf(tuple(items))),
    ),
    max_leaves=8,
)


def written(item):
    match item:
        case Not(item=inner):
            return f"NOT ({written(inner)})"
        case AllOf(items=items):
            return " AND ".join(f"({written(i)})" for i in items)
        case AnyOf(items=items):
            return " OR ".join(f"({written(i)})" for i in items)
        case Compare(field="state", operator=operator, value=value):
            return f"state{operator}JOB_STATE_{STATE[JobState[value]]}"
        case Compare(field=field, operator=operator, value=datetime() as value):
            return f'{field} {operator} "{value.isoformat()}"'
        case Compare(field=field, operator=operator, value=value):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'{field}{operator}"{escaped}"'


@given(FILTER)
def test_what_is_written_in_parentheses_is_read_as_it_was_meant(item):
    assert jobs_filter(written(item)) == item


PIECES = [*"()=:!<>\".'* -\\", "AND ", "OR ", "NOT ", "state", "labels.k", "JOB_STATE_QUEUED", "1"]


@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(Refusal):
        assert jobs_filter(text) is not None
