"""The Pareto front of several objectives in a report, and how it grew."""

import csv
import io

import pytest

from trainshed.workbench.study_report.files import trials_csv
from trainshed.workbench.study_view import read_view
from workbench.report_pages import drawn, figures, read
from workbench.study_documents import ACCURACY, SECONDS, trial, vertex


def test_several_objectives_have_a_front_instead_of_a_history():
    trials = [
        trial(n, final=(1, {"accuracy": n % 5, "seconds": float(n)}), lr=0.001 * n)
        for n in range(1, 12)
    ]
    view, plots = drawn(vertex(trials, metrics=[ACCURACY, SECONDS]))
    titles = [plot.title for plot in plots]
    assert titles[0] == "Pareto front"
    assert "Optimisation history" not in titles
    assert {f"Slices of {name}" for name in ("accuracy", "seconds")} <= set(titles)
    front = figures(plots)["Pareto front"]["data"][-1]
    assert front["customdata"] == [t.number for t in view.leaders]


def traces(plots, title="Pareto front"):
    return {trace["name"]: trace for trace in figures(plots)[title]["data"]}


LIMIT = {"metricId": "size", "goal": "MINIMIZE", "safetyConfig": {"safetyThreshold": 0.6}}


def two_objectives(metrics=(ACCURACY, SECONDS, LIMIT)):
    values = [
        (0.5, 9.0, 0.5),
        (0.9, 30.0, 0.6),
        (0.8, 10.0, 0.1),
        (0.7, 20.0, 0.1),
        (0.95, 5.0, 0.71),
    ]
    trials = [
        trial(n, final=(1, {"accuracy": a, "seconds": s, "size": size}), lr=0.01 * n, opt="<b>")
        for n, (a, s, size) in enumerate(values, 1)
    ]
    return vertex(trials, metrics=list(metrics))


def test_a_front_is_connected_and_trials_beyond_a_limit_are_crossed():
    _, plots = drawn(two_objectives())
    lines = traces(plots)
    front = lines["in the front"]
    assert front["customdata"] == [1, 3, 2]
    assert (front["mode"], front["line"]["shape"]) == ("lines+markers", "vh")
    assert lines["other trials"]["customdata"] == [4]
    assert lines["beyond a limit"]["customdata"] == [5]
    assert "x-thin" in lines["beyond a limit"]["marker"]["symbol"]
    assert front["text"][2].startswith(
        "trial 2<br>accuracy 0.9<br>seconds 30<br>size 0.6<br>lr=0.02"
    )
    assert "<b>" not in front["text"][2]
    layout = figures(plots)["Pareto front"]["layout"]
    assert layout["xaxis"]["title"]["text"] == "accuracy (larger is better →)"
    assert layout["yaxis"]["title"]["text"] == "seconds (smaller is better ←)"


def test_the_growth_of_a_front_is_its_hypervolume():
    _, plots = drawn(two_objectives())
    growth = figures(plots)["Growth of the front"]["data"][0]
    assert growth["x"] == [1, 2, 3, 5]
    # the rectangle: accuracy from 0.5 to 0.9, seconds from 30 to 9
    assert growth["y"] == pytest.approx([0.0, 0.0, 0.75 * 20 / 21, 0.75 * 20 / 21])
    assert "3 trials" in next(plot.about for plot in plots if plot.title == "Growth of the front")


def test_the_page_says_which_limit_a_trial_breaks_and_names_the_front():
    report = read(two_objectives())
    cells = report.texts_of("td")
    assert "size at most 0.6: 4 of 5 ended trials are safe (80%)" in cells
    assert "size 0.71 > 0.6" in cells
    assert "Pareto front: 3 trials" in report.texts_of("h2")
    assert ("tr", {"id": "trial5"}) in report.tags
    (*_, last) = csv.DictReader(io.StringIO(trials_csv(read_view(two_objectives()))))
    assert (last["best"], last["broken_limits"], last["origin"]) == (
        "false", "size 0.71 > 0.6", "",
    )  # fmt: skip


def test_three_objectives_are_drawn_in_pairs():
    third = {key: value for key, value in LIMIT.items() if key != "safetyConfig"}
    _, plots = drawn(two_objectives((ACCURACY, SECONDS, third)))
    figure = figures(plots)["Pareto front"]
    assert {"xaxis", "xaxis2", "xaxis3"} <= figure["layout"].keys()
    assert all(trace["mode"] == "markers" for trace in figure["data"])
    assert sum(trace["showlegend"] for trace in figure["data"]) <= 3
    growth = next(plot for plot in plots if plot.title == "Growth of the front")
    assert growth.about.startswith("The number of trials in the front.")


def test_five_objectives_are_parallel_coordinates():
    metrics = [{"metricId": f"m{n}"} for n in range(5)]
    trials = [trial(k, final=(1, {f"m{n}": float(k) for n in range(5)}), lr=0.1) for k in (1, 2)]
    _, plots = drawn(vertex(trials, metrics=metrics))
    lines = figures(plots)["Pareto front"]["data"][0]
    assert lines["type"] == "parcoords"
    assert [dimension["values"] for dimension in lines["dimensions"]] == [[1.0, 2.0]] * 5
    assert lines["line"]["color"] == [0, 2]


def test_objectives_without_a_result_have_a_sentence():
    _, plots = drawn(vertex([trial(1, "ACTIVE", lr=0.1)], metrics=[ACCURACY, SECONDS]))
    assert (plots[0].title, plots[0].figure) == ("Pareto front", None)
