"""``report``: two files from what a server says of a study."""

import builtins
import csv
import shlex
import sys

import pytest

from cli.conftest import ELSEWHERE
from cli.standin import StandIn
from workbench.study_documents import NAME, many, ml, ml_trial, vertex

ML = ml([ml_trial(1, value=0.5, step=3, lr=0.1)], state="SUCCEEDED")
PATHS = {
    f"/v1/{NAME}": vertex(many(6)),
    "/v1/projects/local/jobs/census_1": ML,
    "/v1/projects/local/jobs/plain": {"jobId": "plain", "trainingInput": {}, "state": "RUNNING"},
}

STATUS = {}


def answer(_verb, path, _document):
    if path in PATHS:
        return STATUS.get(path, 200), PATHS[path]
    return 404, {"error": {"code": 404, "status": "NOT_FOUND", "message": "there is no such job"}}


@pytest.fixture(autouse=True)
def server(monkeypatch, home):
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    with StandIn(answer) as server:
        server.note(home / "data")
        yield server


def test_a_running_study_is_reported_as_it_stands(trainshed, tmp_path):
    run = trainshed("ai", "hp-tuning-jobs", "report", NAME, "--out", "r")
    assert run.code == 0, run.err
    assert run.out == "page: r/study-77.html\ntable: r/study-77.csv\n"
    assert f"trainshed ai hp-tuning-jobs report {NAME} --out r\n" in run.err
    assert "<!DOCTYPE html>" in (tmp_path / "r/study-77.html").read_text()
    assert len((tmp_path / "r/study-77.csv").read_text().splitlines()) == 7


def test_json_tells_where_the_files_are(trainshed, tmp_path):
    run = trainshed("ai-platform", "jobs", "report", "census_1", "--format", "json")
    assert run.code == 0, run.err
    assert run.json == {
        "name": "census_1",
        "state": "SUCCEEDED",
        "trials": 1,
        "best": [1],
        "page": "study-census_1.html",
        "table": "study-census_1.csv",
    }
    assert run.err == ""
    assert (tmp_path / "study-census_1.html").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("ai-platform", "jobs", "report", "plain"), 2, "plain is not a tuning job"),
        (("ai-platform", "jobs", "report", "other"), 1, "NOT_FOUND: there is no such job"),
        (
            ("ai", "hp-tuning-jobs", "report", "projects/p/jobs/x"),
            2,
            "the name of a tuning job must be",
        ),
        (("ai", "hp-tuning-jobs", "report"), 2, "NAME"),
    ],
)
def test_what_has_no_report_is_a_sentence(trainshed, words, code, message, tmp_path):
    run = trainshed(*words)
    assert (run.code, message in run.err) == (code, True), run.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["file/x.html", "new/x.html", "new/folder"])
def test_a_place_in_a_folder_that_is_not_there_is_a_sentence(trainshed, tmp_path, out):
    (tmp_path / "file").touch()
    run = trainshed("ai", "hp-tuning-jobs", "report", NAME, "--out", out)
    folder = out.partition("/")[0]
    assert run.code == 2
    assert run.err == f"error: --out {out}: there is no folder {folder}; make it first\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_place_that_cannot_be_written_is_a_sentence(trainshed, tmp_path):
    (tmp_path / "file").touch()
    run = trainshed("ai", "hp-tuning-jobs", "report", NAME, "--out", "file")
    assert run.code == 1
    assert run.err.startswith("error: file")


def test_the_command_that_is_told_writes_the_same_files(trainshed, tmp_path):
    run = trainshed("ai", "hp-tuning-jobs", "report", NAME, "--out", "my study.html")
    words = shlex.split(run.err.partition("for a newer report: ")[2])
    assert trainshed(*words[1:]).out == run.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my study.csv", "my study.html"]


@pytest.mark.parametrize("status", [200, 404, 501])
def test_what_only_the_native_route_says_is_in_the_table(trainshed, tmp_path, monkeypatch, status):
    trial = {"number": 1, "state": "SUCCEEDED", "jobState": "CANCELLED", "stoppedEarly": True}
    answer = (
        {"trials": [{**trial, "metrics": {}}]} if status == 200 else {"error": {"code": status}}
    )
    path = "/trainshed/v1/projects/p/jobs/77/trials"
    monkeypatch.setitem(PATHS, path, answer)
    monkeypatch.setitem(STATUS, path, status)
    assert trainshed("ai", "hp-tuning-jobs", "report", NAME).code == 0
    rows = list(csv.DictReader((tmp_path / "study-77.csv").read_text().splitlines()))
    early = "true" if status == 200 else "false"
    assert [row["stopped_early"] for row in rows] == [early, *["false"] * 5]
    assert (">stopped early<" in (tmp_path / "study-77.html").read_text()) is (status == 200)


@pytest.mark.parametrize("missing", ["plotly", "optuna"])
def test_a_missing_package_is_named_with_what_brings_it(trainshed, monkeypatch, missing, tmp_path):
    for name in list(sys.modules):
        if (
            name.partition(".")[0] == missing
            or "study_report.figures" in name
            or ("study_report.optuna" in name or "study_report.page" in name)
        ):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without(missing, builtins.__import__))
    run = trainshed("ai", "hp-tuning-jobs", "report", NAME)
    assert run.code == 1
    assert (
        f"{missing} is not installed; pip install --find-links dist 'trainshed[server,report]'"
        in run.err
    )
    assert list(tmp_path.iterdir()) == []


def without(package, real):
    def load(name, *rest, **more):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *rest, **more)

    return load
