"""The steps of a running job in words, and the list of jobs when progress cannot be read."""

import os
from datetime import UTC, datetime

import pytest

from trainshed.cli.jobs.progress_texts import progress_line, read_progress, step_cells
from trainshed.cli.jobs.watch_view import JobView
from trainshed.client.faults import ServerRefusal, Unreachable


def progress(step, total=None, step_s=None):
    return {"step": step, "total": total, "step_s": step_s}


@pytest.mark.parametrize(
    ("row", "cells", "line"),
    [
        (None, ("", ""), ""),
        (progress(None, 100, 2.0), ("", "2 s"), ""),
        (progress(0, 100), ("0 of 100", ""), "step 0 of 100 (0 %)"),
        (progress(1200), ("1,200", ""), "step 1,200"),
        (progress(1200, 0, 3.021), ("1,200", "3.02 s"), "step 1,200, 3.02 s a step"),
        (progress(1200, 5000, 0.0123), ("1,200 of 5,000", "12.3 ms"),
         "step 1,200 of 5,000 (24 %), 12.3 ms a step, 46s to go"),
        (progress(9, 10, 125.0), ("9 of 10", "2m 05s"),
         "step 9 of 10 (90 %), 2m 05s a step, 2m 05s to go"),
        (progress(12, 10, 1.0), ("12 of 10", "1 s"),
         "step 12 of 10 (100 %), 1 s a step, 0s to go"),
    ],
)  # fmt: skip
def test_what_a_job_does_not_report_is_left_out(row, cells, line):
    assert step_cells(row) == cells
    assert progress_line(row) == line


@pytest.mark.parametrize(
    "fault", [ServerRefusal(404, "NOT_FOUND", "no such route", []), Unreachable("no server")]
)
def test_jobs_are_shown_without_progress_if_the_server_cannot_tell(fault):
    class Away:
        def call(self, *_, **__):
            raise fault

    assert read_progress(Away(), "-") == {}


def test_a_watched_job_has_its_step_below_its_state():
    now = datetime(2026, 1, 1, 1, tzinfo=UTC)
    job = {"displayName": "big", "state": "RUNNING", "attempt": 1, "replicas": [],
           "startTime": "2026-01-01T00:00:00Z", "progress": progress(3, 4)}  # fmt: skip
    lines = JobView(colour=False).lines(job, [], os.terminal_size((80, 24)), now)
    assert lines == ["big: RUNNING for 1:00:00", "step 3 of 4 (75 %)"]
