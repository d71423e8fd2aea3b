"""entries:list speaks exactly what gcloud writes, and says what it accepts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.log_line import LogLine
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.logging_v2 import entries
from trainshed.wire.logging_v2.entries import LogFilter, entry, parse_filter
from trainshed.wire.times import nanoseconds, timestamp
from wire.log_filters import render

#: What gcloud sent (contracts/gcloud.md 7.1).
TYPES = '(resource.type="ml_job" OR resource.type="cloudml_job") AND '
ML = (
    TYPES + 'resource.labels.job_id="j_run" AND timestamp>="1970-01-01T01:00:00.000000000Z"'
    ' AND timestamp<"2026-11-21T00:07:03.406284Z"'
)
ML_TASK = (
    TYPES + 'resource.labels.job_id="j" AND '
    '(resource.labels.task_name="T" OR labels.task_name="T") AND timestamp>="2026-11-21T00:00:00Z"'
)
VERTEX = (
    'resource.type="ml_job" AND resource.labels.job_id="11" AND '
    'resource.labels.task_name="workerpool0-0" AND '
    '((timestamp="2026-11-21T00:00:00.1Z" AND insertId>"I") OR timestamp>"2026-11-21T00:00:00.1Z")'
    ' AND timestamp<"2026-11-21T00:07:03.406284Z"'
)
BEFORE = 1_795_219_623_406_284_000
NIGHT = 1_795_219_200_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ML, LogFilter(job_id="j_run", from_ns=3600 * 10**9, before_ns=BEFORE)),
        (ML_TASK, LogFilter(job_id="j", task_name="T", from_ns=NIGHT)),
        (
            VERTEX,
            LogFilter(
                job_id="11",
                task_name="workerpool0-0",
                from_ns=NIGHT + 10**8,
                after_id="I",
                before_ns=BEFORE,
            ),
        ),
    ],
)
def test_what_gcloud_writes_is_understood(text, expected):
    assert parse_filter(text) == expected
    assert parse_filter(re.sub(r" AND ", "\n  AND  ", text)) == expected


STAMPS = st.integers(0, 4_000_000_000 * 10**9)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FILTERS = st.builds(
    LogFilter,
    job_id=TEXTS,
    task_name=st.none() | TEXTS,
    from_ns=STAMPS,
    after_id=st.none() | TEXTS,
    before_ns=st.none() | STAMPS,
) | st.builds(LogFilter, job_id=TEXTS)


@given(FILTERS)
def test_every_filter_survives_being_written_and_read(wanted):
    assert parse_filter(render(wanted)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "severity>=ERROR",
        'resource.type="ml_job"',
        'resource.labels.job_id="j" OR resource.labels.job_id="k"',
        'resource.labels.job_id="j" AND resource.labels.job_id="k"',
        'resource.labels.job_id="j" AND ',
        'resource.labels.job_id="j" AND NOT timestamp>="2026-11-21T00:00:00Z"',
        'resource.labels.job_id="j" trailing',
        'resource.labels.job_id="j',
        'resource.labels.job_id="j" AND timestamp>="yesterday"',
        'resource.labels.job_id="j" AND timestamp>="2026-02-31T00:00:00Z"',
        'resource.labels.job_id="j" AND resource.type="gce_instance"',
        'resource.labels.job_id="j" AND (resource.labels.task_name="a" OR labels.task_name="b")',
        (
            'resource.labels.job_id="j" AND ((timestamp="2026-11-21T00:00:00Z" AND insertId>"I")'
            ' OR timestamp>"2026-11-21T00:00:01Z")'
        ),
    ],
)
def test_anything_else_is_refused_with_what_is_accepted(text):
    with pytest.raises(Refusal) as caught:
        parse_filter(text)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert [v.field for v in caught.value.violations] == ["filter"]
    assert 'resource.labels.job_id="JOB"' in caught.value.message


@given(st.text(alphabet='()"\\ =<>ANDORtimesp.labj_id', max_size=80))
def test_no_text_breaks_the_parser(text):
    with pytest.raises(Refusal):
        parse_filter(text)


@given(STAMPS, STAMPS)
def test_timestamps_are_exact_of_one_width_and_sort_as_texts(one, other):
    assert nanoseconds(timestamp(one)) == one
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", timestamp(one))
    assert (one < other) == (timestamp(one) < timestamp(other))


@pytest.mark.parametrize(
    "text", ["2026-11-21T01:00:00.5+01:00", "2026-11-21t00:00:00.5z", "2026-11-21T00:00:00.50Z"]
)
def test_other_spellings_of_a_time_mean_the_same(text):
    assert nanoseconds(text) == NIGHT + 5 * 10**8


def test_the_body_is_read_as_gcloud_sends_it():
    document = {
        "filter": ML,
        "orderBy": "timestamp asc",
        "pageSize": 1000,
        "resourceNames": ["projects/demo-proj"],
    }
    project, query = entries.parse(document)
    assert (project, query.page_size, query.descending) == ("demo-proj", 1000, False)
    older = {"projectIds": ["demo-proj"], "orderBy": "timestamp desc", "pageSize": "5000"}
    project, query = entries.parse(older)
    assert (project, query.page_size, query.descending) == ("demo-proj", 1000, True)
    assert entries.parse({"resourceNames": ["projects/p"]})[1].page_size == 50


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"orderBy": "severity"}, "orderBy"),
        ({"pageSize": -1}, "pageSize"),
        ({"pageSize": True}, "pageSize"),
        ({"pageSize": "²"}, "pageSize"),
        ({"filter": 3}, "filter"),
        ({"pageToken": ["x"]}, "pageToken"),
        ({"resourceNames": "projects/p"}, "resourceNames"),
        ({"resourceNames": []}, "resourceNames"),
        ({"resourceNames": ["organizations/1"]}, "resourceNames"),
        ({"resourceNames": ["projects/p/locations/l/buckets/b/views/v"]}, "resourceNames"),
        ({"projectIds": ["another"]}, "resourceNames"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_body_is_refused_by_field(more, field):
    with pytest.raises(Refusal) as caught:
        entries.parse({"resourceNames": ["projects/p"], **more})
    assert [v.field for v in caught.value.violations] == [field]


@pytest.mark.parametrize("document", [None, [], "x", 3])
def test_a_body_that_is_no_object_is_refused(document):
    with pytest.raises(Refusal):
        entries.parse(document)


def test_an_entry_has_all_that_gcloud_prints():
    line = LogLine(
        stamp_ns=NIGHT + 720_868_000,
        task_name="master-replica-0",
        text='{"message": "json msg", "levelname": "WARN"}',
        severity="WARNING",
        trial="7",
    )
    assert entry(line, "i0000", project="demo-proj", job_id="j_run") == {
        "timestamp": "2026-11-21T00:00:00.720868000Z",
        "receiveTimestamp": "2026-11-21T00:00:00.720868000Z",
        "insertId": "i0000",
        "severity": "WARNING",
        "logName": "projects/demo-proj/logs/master-replica-0",
        "resource": {
            "type": "ml_job",
            "labels": {
                "job_id": "j_run",
                "task_name": "master-replica-0",
                "project_id": "demo-proj",
            },
        },
        "labels": {"ml.googleapis.com/trial_id": "7"},
        "jsonPayload": {"message": "json msg", "levelname": "WARN"},
    }
    plain = LogLine(stamp_ns=1, task_name="service", text="plain")
    shown = entry(plain, "i1", project="p", job_id="j")
    assert shown["jsonPayload"] == {"message": "plain"}
    assert "labels" not in shown
