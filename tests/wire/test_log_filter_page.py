"""Each filter on docs/reference/log-filters.md does what the page says of it."""

import json
import re
from pathlib import Path

import pytest

from trainshed.model.log_line import LogLine
from trainshed.model.refusals import Refusal
from trainshed.wire.logging_v2.log_entry import LogEntry
from trainshed.wire.logging_v2.log_filter import read_log_filter
from trainshed.wire.times import nanoseconds

PAGE = Path(__file__).parents[2] / "docs/reference/log-filters.md"
HONOURED, REFUSED = PAGE.read_text("utf-8").split("\n## ")[1:3]
NINE = nanoseconds("2026-11-21T09:00:00Z")
STRUCTURED = {
    "message": "Epoch 3",
    "step": 1200,
    "disk": {"used": 0.95},
    "k8s.io/pod": "p-1",
    "note": None,
}
#: For every filter there is an entry here that passes, and for nearly every one that does not.
LINES = [
    LogLine(NINE, "master-replica-0", "epoch 1: loss 0.25", "INFO"),
    LogLine(NINE + 1, "master-replica-0", "worker ran out of memory", "ERROR"),
    LogLine(NINE + 2, "worker-replica-1", "loss is nan", "DEBUG", trial="7"),
    LogLine(NINE + 3, "worker-replica-1", json.dumps(STRUCTURED), "WARNING"),
    *(LogLine(NINE + n, "service", "the job runs") for n in range(4, 40)),
]
ENTRIES = [
    LogEntry(line, 7, 1, project="demo-proj", job_id="census" if n < 39 else "other")
    for n, line in enumerate(LINES)
]
#: What all entries fulfil, as the page says.
ALWAYS = {'resource.type="ml_job"', 'insertId>"0"'}
RANGE = re.compile(r"^timestamp")


def rows(section):
    """The filters of a section's table, each with the cell beside it."""
    cells = re.findall(r"(?m)^\| (`+)(?! )(.+?)\1 \| (.+) \|$", section)
    return [(text, beside) for _, text, beside in cells]


@pytest.mark.parametrize("text", [text for text, _ in rows(HONOURED)])
def test_a_filter_that_is_honoured_tells_entries_apart(text):
    matches = read_log_filter(text).matches
    passing = [entry for entry in ENTRIES if matches(entry)]
    assert passing
    is_for_all = text in ALWAYS or RANGE.match(text)
    assert (len(passing) == len(ENTRIES)) == bool(is_for_all)


@pytest.mark.parametrize(("text", "beside"), rows(REFUSED))
def test_a_filter_that_is_refused_says_what_the_page_says(text, beside):
    with pytest.raises(Refusal, match=re.escape(beside.strip("`"))):
        read_log_filter(text)


def test_the_commands_of_the_page_have_filters_that_are_honoured():
    commands = re.findall(r"(?m)^gcloud logging read '(.+)'", PAGE.read_text("utf-8"))
    assert len(commands) == 3
    for text in commands:
        read_log_filter(text)


def test_the_page_has_all_of_its_rows():
    assert len(rows(HONOURED)) == HONOURED.count("\n| ") - 1
    assert len(rows(REFUSED)) == REFUSED.count("\n| ") - 1
