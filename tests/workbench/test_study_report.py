"""A study as a page that needs nothing else, and as CSV."""

import csv
import io
import json
import re
from itertools import combinations

import pytest

from trainshed.model.faults import UsageFault
from trainshed.workbench.study_report.figures import plots
from trainshed.workbench.study_report.files import files_of, trials_csv, write
from trainshed.workbench.study_report.page import page
from trainshed.workbench.study_view import add_native_study, add_native_trials, read_view
from workbench.report_pages import NOW, Read, drawn, figures, read
from workbench.study_documents import (
    ACCURACY,
    BATCH,
    LR,
    OPT,
    SECONDS,
    many,
    ml,
    ml_trial,
    trial,
    vertex,
)

EVIL = "<script>alert(1)</script>"
ONE = trial(1, measured=[(1, {"accuracy": 0.5})], lr=0.01, opt="adam")


def test_a_study_has_optunas_plots_in_order():
    _, plots = drawn(vertex(many(30)))
    assert [plot.title for plot in plots] == [
        "Optimisation history",
        "Parallel coordinates",
        "Parallel coordinates with momentum",
        "Parameter importances",
        "Slices",
        "Intermediate values",
    ]
    assert all(plot.figure for plot in plots)


def test_plots_count_trials_as_the_api_does():
    trials = [trial(n, final=(1, {"accuracy": n / 10}), lr=0.01 * n) for n in (1, 2, 5)]
    _, plots = drawn(vertex(trials, parameters=[LR]))
    history = figures(plots)["Optimisation history"]
    assert history["data"][0]["x"] == [1, 2, 5]
    assert history["data"][0]["y"] == [0.1, 0.2, 0.5]


def test_parallel_coordinates_of_a_branch_are_drawn_of_its_trials_alone():
    trials = many(24)
    _, plots = drawn(vertex(trials))
    having = [t for t in trials if len(t["parameters"]) == 5 and t["state"] == "SUCCEEDED"]
    plot = next(
        drawing for drawing in plots if drawing.title == "Parallel coordinates with momentum"
    )
    assert f"each of the {len(having)} trials" in plot.about
    figure = json.loads(plot.figure)
    assert sum(trace["mode"] == "lines" for trace in figure["data"]) == len(having)
    assert 0 < len(having) < 24
    assert "None" not in plot.figure


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_slices_stand_in_rows_of_three_that_no_other_touches(count):
    parameters = [{**LR, "parameterId": f"p{n}"} for n in range(count)]
    values = {f"p{n}": 0.01 for n in range(count)}
    trials = [trial(n, final=(1, {"accuracy": n / 9}), **values) for n in (1, 2, 3)]
    _, plots = drawn(vertex(trials, parameters=parameters))
    layout = figures(plots)["Slices"]["layout"]
    assert "width" not in layout, "the page says how wide it is"
    numbers = [str(n + 1) if n else "" for n in range(count)]
    boxes = [layout[f"{xy}axis{n}"]["domain"] for n in numbers for xy in "xy"]
    places = list(zip(boxes[::2], boxes[1::2], strict=True))
    assert len({tuple(y) for _, y in places}) == -(-count // 3)
    for one, other in combinations(places, 2):
        assert any(a[1] < b[0] or b[1] < a[0] for a, b in zip(one, other, strict=True))
    assert all(0 <= low < high <= 1 for place in places for low, high in place)


def test_the_axis_of_listed_values_is_marked_at_these():
    scaled = {**BATCH, "scaleType": "UNIT_LOG_SCALE"}
    trials = [trial(n, final=(1, {"accuracy": n / 9}), batch=b) for n, b in ((1, 16.0), (2, 64.0))]
    _, plots = drawn(vertex(trials, parameters=[scaled]))
    axis = figures(plots)["Slices"]["layout"]["xaxis"]
    assert (axis["type"], axis["tickvals"]) == ("log", [16, 32, 64])
    assert axis["ticktext"] == ["16", "32", "64"]


def test_numbers_are_short_on_the_page_and_exact_in_the_table_beside_it():
    document = vertex([trial(1, final=(1, {"accuracy": 0.9887955182}), lr=0.1 + 0.2, batch=32.0)])
    assert {"0.988796", "0.3", "32"} <= set(read(document).texts_of("td"))
    assert "Trial 1: accuracy 0.988796 at step 1. Its arguments:" in read(document).texts_of("p")
    (row,) = csv.DictReader(io.StringIO(trials_csv(read_view(document))))
    assert row["metrics.accuracy"] == "0.9887955182"
    assert (row["parameters.lr"], row["parameters.batch"]) == ("0.30000000000000004", "32")


def test_importances_are_those_of_conditional_parameters_too():
    _, plots = drawn(vertex(many(60)))
    bars = figures(plots)["Parameter importances"]["data"][0]
    assert set(bars["y"]) == {"lr", "units", "batch", "opt", "momentum"}
    assert abs(sum(bars["x"]) - 1) < 1e-6


@pytest.mark.parametrize("count", [0, 1, 4, 7])
def test_small_studies_have_what_they_can_have(count):
    _, plots = drawn(vertex(many(count)))
    finished = count - count // 7
    assert bool(figures(plots)) is (finished > 0)
    if not finished:
        assert "No trial has finished" in plots[0].about
    elif finished < 5:
        importances = next(plot for plot in plots if plot.title == "Parameter importances")
        assert importances.figure is None
        assert f"there are {finished}" in importances.about


@pytest.mark.parametrize(
    "trials",
    [
        [trial(1, "ACTIVE", lr=0.1)],
        [trial(1, "ACTIVE", measured=[(1, {"accuracy": 0.5})], lr=0.1)],
        [trial(1, "REQUESTED")],
        [trial(1, "INFEASIBLE", reason="r", lr=0.1)],
        [trial(1, final=(1, {"accuracy": "NaN"}), lr=0.1)],
        [trial(n, final=(1, {"accuracy": 0.5})) for n in range(1, 8)],
        [trial(n, final=(1, {"accuracy": 0.5}), lr=0.1) for n in range(1, 8)],
        [trial(n, final=(1, {"accuracy": 0.5}), lr=7, opt=3, other="x") for n in (1, 2)],
        [trial(10**12, final=(1, {"accuracy": 0.5}), lr=0.1), ONE],
        [trial(1, measured=[(0, {"accuracy": 0.1}), (0, {"accuracy": 0.2})], lr=0.1)],
    ],
    ids=["active", "measured", "requested", "infeasible", "nan", "bare", "equal", "foreign",
         "far", "stepless"],
)  # fmt: skip
def test_odd_studies_have_a_page(trials):
    report = read(vertex(trials, parameters=[LR, OPT]))
    assert len([tag for tag, _ in report.tags if tag == "tr"]) >= len(trials)


def test_steps_that_do_not_ascend_are_counted():
    measured = [(0, {"accuracy": 0.1}), (0, {"accuracy": 0.2})]
    _, plots = drawn(vertex([trial(1, measured=measured, lr=0.1)]))
    curve = figures(plots)["Intermediate values"]["data"][0]
    assert (curve["x"], curve["y"]) == ([1, 2], [0.1, 0.2])


NATIVE = {
    "trials": [
        {
            "number": 1, "state": "SUCCEEDED", "origin": "FIRST_POINT", "metrics": {},
            "firstPoint": {"position": 1, "source": "line 2 of p.csv"},
        },
        {
            "number": 2, "state": "SUCCEEDED", "stoppedEarly": True, "metrics": {},
            "earlyStop": {"rule": "asha", "rung": 2},
        },
    ]
}  # fmt: skip


def test_rungs_and_enqueued_points_are_those_of_the_native_api():
    measured = [(step, {"accuracy": step / 10}) for step in (1, 3, 9)]
    document = vertex([trial(n, measured=measured, lr=0.01 * n) for n in (1, 2)])
    view = add_native_trials(read_view(document), NATIVE)
    sources = [
        {"name": "r.csv", "used": 3, "ignored": 2},
        {"name": "study s1", "used": 1, "ignored": 0},
    ]
    native = {"rungs": [{"at": 3}, {"at": 9}], "knownResults": 4, "priors": "lr near 1e-2"}
    native["knownSources"] = sources
    view = add_native_study(view, native)
    drawing = list(plots(view))
    curves = figures(drawing)["Intermediate values"]["layout"]
    assert [shape["x0"] for shape in curves["shapes"]] == [3, 9]
    assert [note["text"] for note in curves["annotations"]] == ["rung 1", "rung 2"]
    cells = Read(page(view, drawing, "", NOW)).texts_of("td")
    assert {"3 of r.csv (2 ignored), 1 of study s1", "lr near 1e-2"} <= set(cells)
    assert {"enqueued (line 2 of p.csv)", "stopped early at rung 2"} <= set(cells)


def test_rungs_of_seconds_are_not_drawn_over_steps():
    view = add_native_study(read_view(vertex()), {"rungs": [{"at": 3}], "rungsByTime": True})
    assert view.rungs == ()


@pytest.mark.parametrize("broken", [{"rungs": [{}]}, {"knownResults": "x"}, {"rungs": 3}])
def test_a_description_that_cannot_be_read_is_a_sentence(broken):
    with pytest.raises(UsageFault, match="description of the study"):
        add_native_study(read_view(vertex()), broken)


def test_a_limit_is_drawn_and_told():
    limit = {**SECONDS, "safetyConfig": {"safetyThreshold": 20}}
    trials = [trial(n, final=(1, {"accuracy": n / 9, "seconds": n * 8.0}), lr=0.01) for n in (1, 4)]
    document = vertex(trials, metrics=[ACCURACY, limit])
    _, plots = drawn(document)
    history, parallel = (
        {trace["name"] for trace in figures(plots)[title]["data"] if trace.get("showlegend", True)}
        for title in ("Optimisation history", "Parallel coordinates")
    )
    assert {"beyond a limit", "Best Value"} <= history
    assert {"safe", "beyond a limit"} <= parallel
    cells = read(document).texts_of("td")
    assert "seconds at most 20: 1 of 2 ended trials are safe (50%)" in cells
    assert "seconds 32 > 20" in cells


@pytest.mark.untraced
def test_many_trials_are_drawn_and_their_curves_are_the_newest():
    _, plots = drawn(vertex(many(150)))
    curves = next(plot for plot in plots if plot.title == "Intermediate values")
    assert "newest 100" in curves.about
    assert len(json.loads(curves.figure)["data"]) == 100


def test_an_ml_v1_job_has_a_report_too():
    trials = [ml_trial(n, value=1 / n, step=10, lr=0.1 * n, opt="adam") for n in range(1, 7)]
    view, plots = drawn(ml(trials))
    assert figures(plots)["Optimisation history"]["data"][1]["y"][-1] == pytest.approx(1 / 6)
    assert "--lr 0.6000000000000001 --opt adam" in "".join(
        Read(page(view, plots, "", NOW)).texts_of("pre")
    )


def test_the_page_shows_the_best_trial_with_its_arguments_and_why_others_failed():
    bad = trial(2, "INFEASIBLE", reason="accuracy was not reported", lr=0.1)
    best = trial(3, final=(9, {"accuracy": 0.75}), lr=1e-05, opt="a 'b")
    report = read(vertex([ONE, bad, best]))
    assert report.texts_of("pre") == ["""--lr 1e-05 --opt 'a '"'"'b'"""]
    assert "Trial 3: accuracy 0.75 at step 9. Its arguments:" in report.texts_of("p")
    assert "accuracy was not reported" in report.texts_of("td")
    assert "3 of 24: 2 succeeded, 1 infeasible" in report.texts_of("td")


def test_the_page_escapes_every_name_and_loads_nothing():
    trials = [
        trial(n, final=(1, {"<b>m": n / 9}), **{EVIL: f"</script><img src=x{n}>", "<i>": n})
        for n in range(1, 8)
    ]
    bad = trial(9, "INFEASIBLE", reason=EVIL)
    parameter = {"parameterId": EVIL, "categoricalValueSpec": {"values": ["<u>"]}}
    document = vertex(
        [*trials, bad],
        name=EVIL,
        displayName=EVIL,
        metrics=[{"metricId": "<b>m"}],
        parameters=[parameter],
        error={"message": EVIL},
    )
    plain, report = read(vertex([*many(7)])), read(document)
    kinds = {tag for tag, _ in report.tags}
    assert kinds == {tag for tag, _ in plain.tags}, "no element of theirs"
    assert report.addresses == []
    assert report.texts_of("h1") == [EVIL]
    assert EVIL in report.texts_of("td")
    assert EVIL in report.texts_of("th")
    embedded = [attrs for tag, attrs in report.tags if tag == "script" and "data-plot" in attrs]
    assert len(embedded) == 4
    for text in report.texts_of("script")[: len(embedded)]:
        figure = json.dumps(json.loads(text), ensure_ascii=False)
        assert not re.search(r"<(?!br>|extra>|/extra>|b>Trial|0\.01)", figure), (
            "plotly reads markup"
        )
    policy = next(a["content"] for t, a in report.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")


def test_names_that_look_alike_stay_apart():
    trials = [trial(n, final=(1, {"accuracy": n / 9}), **{"<": n, "‹": -n}) for n in (1, 2, 3)]  # noqa: RUF001  # that is the point
    _, plots = drawn(vertex(trials, parameters=[]))
    layout = figures(plots)["Slices"]["layout"]
    assert {layout["xaxis"]["title"]["text"], layout["xaxis2"]["title"]["text"]} == {"‹", "‹'"}  # noqa: RUF001  # the same


def test_csv_has_every_trial_and_reads_back_exactly():
    rows = list(csv.DictReader(io.StringIO(trials_csv(read_view(vertex(many(20)))))))
    assert [row["trial"] for row in rows] == [str(n) for n in range(1, 21)]
    source = many(20)
    for row, document in zip(rows, source, strict=True):
        values = {p["parameterId"]: p["value"] for p in document["parameters"]}
        assert float(row["parameters.lr"]) == values["lr"]
        assert (row["parameters.momentum"] == "") is ("momentum" not in values)
    assert rows[6]["state"] == "INFEASIBLE"
    assert rows[6]["infeasible_reason"] == "accuracy was not reported"
    assert rows[6]["metrics.accuracy"] == ""
    assert rows[0]["end_time"] == "2026-11-20T20:01:12.500Z"


def test_csv_keeps_a_parameter_apart_that_is_called_like_a_column():
    view = read_view(vertex([trial(1, final=(1, {"accuracy": 1.0}), trial="x", step='a,"b')]))
    (row,) = csv.DictReader(io.StringIO(trials_csv(view)))
    assert (row["trial"], row["parameters.trial"]) == ("1", "x")
    assert row["parameters.step"] == 'a,"b'


@pytest.mark.parametrize(
    ("out", "page_name", "table_name"),
    [
        (None, "study-77.html", "study-77.csv"),
        ("reports", "reports/study-77.html", "reports/study-77.csv"),
        ("reports/", "reports/study-77.html", "reports/study-77.csv"),
        ("my.html", "my.html", "my.csv"),
        ("there/my.HTM", "there/my.HTM", "there/my.csv"),
        ("v1.2", "v1.2/study-77.html", "v1.2/study-77.csv"),
    ],
)
def test_out_is_a_page_or_a_folder(out, page_name, table_name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    files = files_of(out, read_view(vertex()))
    assert (str(files.page), str(files.table)) == (page_name, table_name)


def test_a_report_holds_plotly_once_and_leaves_no_other_file(tmp_path):
    view = read_view(vertex([ONE]))
    files = files_of(str(tmp_path / "out"), view)
    for _ in range(2):
        write(view, files, NOW)
    text = files.page.read_text()
    assert text.count("plotly.js v") >= 1
    assert 4_000_000 < len(text) < 8_000_000
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["study-77.csv", "study-77.html"]
    assert files.table.read_bytes().count(b"\r\n") == 2
