"""``jobs usage`` and ``jobs scalars``: curves as a table, as JSON, and as CSV for a spreadsheet."""

import json

import pytest

from cli.standin import StandIn
from trainshed.cli.jobs.sparkline import draw_sparkline

PATH = "/trainshed/v1/projects/p/jobs/census_1"
NOT_MEASURED = "the power of GPU-1 was not measured in attempt 1"
USAGE = {
    "attempts": [{"attempt": 1, "start": 1000.0, "end": None}],
    "series": [
        {
            "name": "memory", "unit": "bytes", "attempt": 1, "task": "master-replica-0",
            "gpu": None, "points": [[1010.0, 0, 1e9, 2e9], [1020.0, 2e9, 3e9, 4e9]],
        },
        {
            "name": "gpu_use", "unit": "ratio", "attempt": 1, "task": None, "gpu": "GPU-1",
            "points": [[1010.0, 0.0, 0.25, 1.0]],
        },
    ],
    "missing": [NOT_MEASURED],
}  # fmt: skip
LOSS = {
    "name": "=loss", "source": "progress", "run": "master-replica-0", "attempt": 1,
    "points": [[10, 1010.0, 4, 4, 4], [20, 1020.0, 1, 2, 3]],
}  # fmt: skip


def scalars(*series, left_out=(), complete=True):
    return {"series": series, "left_out": left_out, "complete": complete}


class Answers:
    """Answers with the job, then with each document in turn."""

    def __init__(self, *documents):
        self.documents = list(documents)

    def __call__(self, _verb, path, _document):
        if path == PATH:
            return 200, {"name": "projects/p/jobs/census_1"}
        if path == f"{PATH}/trials":
            return 200, {"trials": [{"number": 2, "job": "77"}]}
        return 200, self.documents.pop(0)


def call(trainshed, action, *documents, flags=(), job="census_1", path=PATH):
    with StandIn(Answers(*documents)) as server:
        words = ("--project", "p", "--url", server.url, *flags)
        shown = trainshed("jobs", action, job, *words)
    assert shown.code == 0, shown.err
    assert server.requests[-1][1] == f"{path}/{action}"
    return shown


def test_usage_is_a_table_and_what_is_missing_is_said(trainshed):
    shown = call(trainshed, "usage", USAGE)
    assert shown.out.splitlines() == [
        "ATTEMPT  OF                FIGURE  UNIT   MIN  MEAN  MAX  LAST  CURVE",
        "───────  ────────────────  ──────  ─────  ───  ────  ───  ────  ─────",
        "      1  master-replica-0  memory  bytes    0  2G    4G   3G    ▁█",
        "      1  GPU-1             use     ratio    0  0.25  1    0.25  ▁",
    ]
    assert NOT_MEASURED in shown.err


def test_usage_as_csv_has_a_row_for_each_point(trainshed):
    shown = call(trainshed, "usage", USAGE, flags=("--format", "csv"))
    assert shown.out.splitlines() == [
        "attempt,task,gpu,name,unit,time,min,mean,max",
        "1,master-replica-0,,memory,bytes,1010.0,0,1000000000.0,2000000000.0",
        "1,master-replica-0,,memory,bytes,1020.0,2000000000.0,3000000000.0,4000000000.0",
        "1,,GPU-1,gpu_use,ratio,1010.0,0.0,0.25,1.0",
    ]


def test_usage_as_json_is_the_answer_of_the_server(trainshed):
    shown = call(trainshed, "usage", USAGE, flags=("--format", "json", "--since", "1h"))
    assert json.loads(shown.out) == USAGE


def test_scalars_are_read_until_they_are_complete(trainshed):
    shown = call(trainshed, "scalars", scalars(complete=False), scalars(LOSS))
    assert shown.out.splitlines() == [
        "NAME   RUN               ATTEMPT  STEP  FIRST  LAST  MIN  MAX  CURVE",
        "─────  ────────────────  ───────  ────  ─────  ────  ───  ───  ─────",
        "=loss  master-replica-0        1    20      4     2    1    4  █▁",
    ]


def test_scalars_as_csv_hold_no_formula(trainshed):
    shown = call(trainshed, "scalars", scalars(LOSS), flags=("--format", "csv"))
    assert shown.out.splitlines() == [
        "name,source,run,attempt,step,time,min,mean,max",
        "'=loss,progress,master-replica-0,1,10,1010.0,4,4,4",
        "'=loss,progress,master-replica-0,1,20,1020.0,1,2,3",
    ]


def test_a_job_without_scalars_is_told_how_to_get_some(trainshed):
    shown = call(trainshed, "scalars", scalars(left_out=["a.tfevents: it is damaged"]))
    assert shown.out == ""
    assert "a.tfevents: it is damaged" in shown.err
    assert "call trainshed_trainer.progress(step, loss=loss)" in shown.err


@pytest.mark.parametrize(("action", "document"), [("usage", USAGE), ("scalars", scalars(LOSS))])
def test_a_trial_is_named_by_its_tuning_job(trainshed, action, document):
    path = "/trainshed/v1/projects/p/jobs/77"
    call(trainshed, action, document, job="census_1/trials/2", path=path)


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ([], ""),
        ([(1, 5)], "▁"),
        ([(0, 0), (1, 1), (2, 2), (3, 3)], "▁▃▆█"),
        ([(0, 1), (1, 1), (9, 1)], "▁ ▁"),
        ([(0, -1e308), (3, 1e308)], "▁█"),
        ([(number, number) for number in range(100)], "▁▃▆█"),
    ],
)
def test_a_curve_is_a_line_of_bars_with_gaps(points, line):
    assert draw_sparkline(points, width=4) == line
