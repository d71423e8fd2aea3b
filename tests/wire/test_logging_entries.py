"""entries:list: its body, and the entries that it answers with."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.log_line import LogLine
from trainshed.model.refusals import Refusal
from trainshed.wire.logging_v2 import entries
from trainshed.wire.logging_v2.log_entry import LogEntry
from trainshed.wire.times import nanoseconds, timestamp

NIGHT = 1_795_219_200_000_000_000
STAMPS = st.integers(0, 4_000_000_000 * 10**9)


@given(STAMPS, STAMPS)
def test_timestamps_are_exact_of_one_width_and_sort_as_texts(one, other):
    assert nanoseconds(timestamp(one)) == one
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", timestamp(one))
    assert (one < other) == (timestamp(one) < timestamp(other))


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T01:00:00.5+01:00",
        "2026-11-21t00:00:00.5z",
        "2026-11-21T00:00:00.50Z",
        "2026-11-21T00:00:00.500000+0000",
        "2026-11-21 00:00:00.5",
    ],
)
def test_other_spellings_of_a_time_mean_the_same(text):
    assert nanoseconds(text) == NIGHT + 5 * 10**8


def test_the_body_is_read_as_gcloud_sends_it():
    document = {
        "filter": "severity>=ERROR",
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
    assert LogEntry(line, 7, 1, project="demo-proj", job_id="j_run").render() == {
        "timestamp": "2026-11-21T00:00:00.720868000Z",
        "receiveTimestamp": "2026-11-21T00:00:00.720868000Z",
        "insertId": f"0{NIGHT + 720_868_000}-00000000000000000007-1",
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
    entry = LogEntry(plain, 7, 0, project="p", job_id="j").render()
    assert entry["jsonPayload"] == {"message": "plain"}
    assert "labels" not in entry
