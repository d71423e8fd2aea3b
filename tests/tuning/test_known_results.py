import dataclasses

import pytest

from trainshed.model.study import Goal, Metric, Safety, Scale
from trainshed.model.study_start import (
    RESULTS_MAX,
    IgnoredRow,
    KnownResult,
    ResultRow,
    SourceCount,
    UnnamedValue,
    describe_source,
)
from trainshed.model.trials import TrialState
from trainshed.tuning.known_results import match_results, trial_of
from trainshed.tuning.suggest import suggest
from tuning.spaces import LOSS, discrete, double, integer, study, when, words

MIXED = study(
    double("lr", 1e-4, 0.1, scale=Scale.LOG),
    integer("n", 1.0, 8.0, default=2.0),
    discrete(32.0, 64.0, name="batch"),
    words("adam", "sgd", conditions=(when(double("momentum", default=0.5), "sgd"),)),
)
GOOD = {"lr": 0.01, "n": 4, "batch": 32, "opt": "adam"}


def row(name="row 1", loss=0.5, **parameters):
    metrics = {} if loss is None else {"loss": loss}
    return ResultRow(name=name, parameters=parameters, metrics=metrics)


def reasons(spec, *rows):
    return [(one.reason, one.value) for one in match_results(spec, rows).ignored]


def values(spec, *rows):
    return [dict(result.values) for result in match_results(spec, rows).taken]


def test_a_result_becomes_a_point_of_the_study_in_its_own_kinds():
    matched = match_results(MIXED, [row(**GOOD)])
    expected = (("lr", 0.01), ("n", 4), ("batch", 32.0), ("opt", "adam"))
    assert matched.taken == (KnownResult(values=expected, metrics=(("loss", 0.5),)),)
    assert matched.ignored == ()
    assert [type(value) for _, value in matched.taken[0].values] == [float, int, float, str]


def test_texts_of_files_are_read_as_numbers():
    [point] = values(MIXED, row(lr="1e-2", n="4", batch="64.0", opt="sgd", momentum="0.9"))
    assert point == {"lr": 0.01, "n": 4, "batch": 64.0, "opt": "sgd", "momentum": 0.9}


def test_words_match_numbers_and_booleans_of_a_file():
    spec = study(words("1", "2", name="layers"), words("true", "False", name="bias"))
    assert values(spec, row(layers=2, bias=True), row(layers=1.0, bias=False)) == [
        {"layers": "2", "bias": "true"},
        {"layers": "1", "bias": "False"},
    ]


def test_a_missing_parameter_takes_the_default_or_the_result_is_ignored():
    [point] = values(MIXED, row(lr=0.01, batch=32, opt="sgd", n=""))
    assert point == {"lr": 0.01, "n": 2, "batch": 32.0, "opt": "sgd", "momentum": 0.5}
    assert reasons(MIXED, row(n=4, batch=32, opt="adam")) == [
        ("lr is missing and has no defaultValue", "")
    ]


def test_a_value_of_an_inactive_parameter_has_no_effect():
    assert values(MIXED, row(**GOOD, momentum=0.7)) == [GOOD]


@pytest.mark.parametrize(
    ("change", "reason", "value"),
    [
        ({"lr": 0.5}, "lr is not between 0.0001 and 0.1", "0.5"),
        ({"lr": "fast"}, "lr is not between 0.0001 and 0.1", "fast"),
        ({"lr": "nan"}, "lr is not between 0.0001 and 0.1", "nan"),
        ({"lr": 10**400}, "lr is not between 0.0001 and 0.1", f"{'1' + '0' * 59}..."),
        ({"lr": True}, "lr is not between 0.0001 and 0.1", "True"),
        ({"n": 2.5}, "n is not a whole number from 1 to 8", "2.5"),
        ({"batch": 48}, "batch is not one of 32, 64", "48"),
        ({"opt": "lion"}, "opt is not one of adam, sgd", "lion"),
    ],
)
def test_a_value_that_the_study_cannot_have_is_named(change, reason, value):
    assert reasons(MIXED, row(**{**GOOD, **change})) == [(reason, value)]


def test_a_long_list_of_values_is_cut():
    spec = study(discrete(*map(float, range(20)), name="d"))
    assert reasons(spec, row(d=99)) == [("d is not one of 0, 1, 2, 3, 4, 5, 6, 7, ...", "99")]


def test_every_metric_of_the_study_is_needed():
    limit = Metric(metric_id="memory", safety=Safety(threshold=1.0))
    spec = study(double(), metrics=(LOSS, limit))
    assert reasons(spec, row(lr=0.5), row(lr=0.5, loss=None)) == [
        ("metric memory is missing", ""),
        ("metric loss is missing", ""),
    ]
    full = ResultRow(name="r", parameters={"lr": 0.5}, metrics={"memory": 2, "loss": 1, "x": 3})
    assert match_results(spec, [full]).taken[0].metrics == (("loss", 1.0), ("memory", 2.0))
    assert match_results(spec, [full]).left_out == ("x",)
    assert reasons(study(double()), row(lr=0.5, loss=float("inf"))) == [
        ("metric loss is not a finite number", "inf")
    ]


def test_cells_are_parameters_or_metrics_by_the_names_of_the_study():
    cells = {"lr": "0.5", "loss": "0.25", "seconds": "9", "note": "x"}
    matched = match_results(study(double()), [ResultRow(name="r", cells=cells)])
    assert matched.taken == (KnownResult(values=(("lr", 0.5),), metrics=(("loss", 0.25),)),)
    assert matched.left_out == ("note", "seconds")
    unread = ResultRow(name="r", cells={"lr": "0.5", "loss": "high"})
    assert reasons(study(double()), unread) == [("metric loss is not a finite number", "high")]
    empty = ResultRow(name="r", cells={"lr": "0.5", "loss": ""})
    assert reasons(study(double()), empty) == [("metric loss is missing", "")]


def test_an_extra_parameter_that_never_differs_is_left_out():
    matched = match_results(study(double()), [row(lr=0.1, seed=7), row(lr=0.2, seed=7)])
    assert [dict(result.values) for result in matched.taken] == [{"lr": 0.1}, {"lr": 0.2}]
    assert matched.left_out == ("seed",)


def test_results_with_an_extra_parameter_that_differs_are_ignored():
    rows = [row(lr=0.1, seed=7), row(lr=0.2, seed=8), row(lr=0.3)]
    reason = "seed is not a parameter of this study and differs between the results"
    assert reasons(study(double()), *rows) == [(reason, "7"), (reason, "8")]
    assert values(study(double()), *rows) == [{"lr": 0.3}]


def test_a_result_that_is_ignored_anyway_makes_no_parameter_differ():
    rows = [row(lr=0.1, seed=7), row(lr=9, seed=8)]
    assert values(study(double()), *rows) == [{"lr": 0.1}]


def test_values_without_names_are_the_objectives_in_their_order():
    def unnamed(*pairs):
        pairs = tuple(UnnamedValue(value=value, goal=goal) for value, goal in pairs)
        return ResultRow(name="trial 0", parameters={"lr": 0.5}, unnamed=pairs)

    two = study(double(), metrics=(LOSS, Metric(metric_id="acc")))
    rows = [unnamed((0.5, Goal.MINIMIZE), (0.9, None)), unnamed((0.5, None))]
    matched = match_results(two, rows)
    assert matched.taken[0].metrics == (("loss", 0.5), ("acc", 0.9))
    assert matched.ignored[0].reason == (
        "it has 1 value without names, and the study's objectives are loss, acc"
    )
    assert reasons(study(double()), unnamed((0.5, Goal.MAXIMIZE))) == [
        ("its value has no name and the other goal: this study minimizes loss", "")
    ]
    named = dataclasses.replace(unnamed((1.0, None), (2.0, None)), metrics={"loss": 0.25})
    assert match_results(study(double()), [named]).taken[0].metrics == (("loss", 0.25),)


def test_what_its_source_calls_no_result_is_ignored():
    failed = ResultRow(name="run a", fault="the run is FAILED", parameters={"lr": 0.5})
    assert match_results(study(double()), [failed]).ignored == (
        IgnoredRow(name="run a", reason="the run is FAILED"),
    )


def test_the_results_of_each_source_are_counted():
    good, bad = dict(GOOD), {**GOOD, "lr": 7}
    rows = [
        dataclasses.replace(row(**values), source=source)
        for source, values in (("a", good), ("b", bad), ("a", bad), ("b", good), ("a", bad))
    ]
    assert match_results(MIXED, rows).sources == (
        SourceCount(name="a", used=1, ignored=2),
        SourceCount(name="b", used=1, ignored=1),
    )
    assert describe_source("a", 1, 2) == "1 of a (2 ignored)"
    assert describe_source("", 3, 0) == "3 of the request"


def test_only_the_last_results_are_used():
    rows = [row(f"row {n}", lr=n / 2000) for n in range(RESULTS_MAX + 2)]
    rows.insert(500, row("bad", lr=7))
    matched = match_results(study(double()), rows)
    assert len(matched.taken) == RESULTS_MAX
    assert [one.name for one in matched.ignored] == ["row 0", "row 1", "bad"]
    assert matched.ignored[0].reason == "only the last 1,000 results are used"


def test_known_results_begin_a_search_at_trial_1_and_are_not_tried_again():
    spec = study(double(), trial_count_max=9)
    rows = [row(lr=n / 20, loss=(n / 20 - 0.3) ** 2) for n in range(1, 20)]
    earlier = [trial_of(one) for one in match_results(spec, rows).taken]
    assert {one.state for one in earlier} == {TrialState.SUCCEEDED}
    assert {one.number for one in earlier} == {0}
    [first] = suggest(spec, (), 1, 3, prior=earlier).values
    assert abs(dict(first)["lr"] - 0.3) < 0.06, "it is near the best of them, and not the middle"
    again = suggest(spec, (), 1, 3, prior=earlier[::-1]).values
    assert again == (first,)
    finite = study(integer(high=2.0), words("a", "b"))
    taken = match_results(finite, [row(n=1, opt="a"), row(n=2, opt="b")]).taken
    rest = suggest(finite, (), 9, 3, prior=[trial_of(one) for one in taken])
    assert rest.exhausted
    assert sorted(rest.values) == [(("n", 1), ("opt", "b")), (("n", 2), ("opt", "a"))]
