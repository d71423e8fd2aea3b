"""The default algorithm: it learns from results, failures, limits and trials that run."""

import statistics

import pytest

from trainshed.model.study import Algorithm, Goal, Metric, Safety, Scale
from trainshed.model.trials import TrialState
from trainshed.tuning.ranking import is_safe, pareto
from trainshed.tuning.suggest import suggest
from tuning.spaces import LOSS, double, integer, luck, study, trial, when, words

SQUARE = (double("x", -5.0, 5.0), double("y", -5.0, 5.0))


def optimized(spec, seed, total, measure, at_once=1):
    """The trials of a study whose results are known at once, but for infeasible points: None."""
    trials = []
    while len(trials) < total:
        for values in suggest(spec, trials, at_once, seed).values:
            metrics = measure(dict(values))
            number = len(trials) + 1
            state = TrialState.SUCCEEDED if metrics else TrialState.INFEASIBLE
            trials.append(trial(number, values, state=state, **(metrics or {})))
    return trials


def losses(trials):
    return [
        value
        for trial in trials
        if trial.final and (value := trial.final.value("loss")) is not None
    ]


def medians(metrics, measure, total, parameters, score):
    """What is found by the default algorithm and by chance, over some seeds."""
    scores = []
    for algorithm in (Algorithm.DEFAULT, Algorithm.RANDOM_SEARCH):
        spec = study(*parameters, metrics=metrics, algorithm=algorithm)
        scores.append(
            statistics.median(score(optimized(spec, s, total, measure)) for s in range(3))
        )
    return scores


def bowl(values):
    return {"loss": (values["x"] - 1.7) ** 2 + (values["y"] + 2.2) ** 2}


@pytest.mark.untraced
def test_it_finds_the_bottom_of_a_bowl_where_chance_does_not():
    ours, chance = medians((LOSS,), bowl, 25, SQUARE, lambda trials: min(losses(trials)))
    assert ours < chance


def test_a_metric_may_be_better_when_it_is_larger():
    height = Metric(metric_id="loss", goal=Goal.MAXIMIZE)
    ours, chance = medians(
        (height,), lambda v: {"loss": -bowl(v)["loss"]}, 25, SQUARE, lambda t: max(losses(t))
    )
    assert ours > chance


@pytest.mark.untraced
def test_it_finds_the_better_branch_of_a_condition():
    parameters = (
        words(
            "good",
            "bad",
            "worse",
            conditions=(when(double("x"), "good"), when(double("y"), "bad", "worse")),
        ),
        double("z"),
    )

    def measure(values):
        return {"loss": abs(values.get("x", 2.0) - 0.3) + abs(values["z"] - 0.6)}

    ours, chance = medians((LOSS,), measure, 30, parameters, lambda t: min(losses(t)))
    assert ours < chance


@pytest.mark.untraced
def test_it_keeps_out_of_where_trials_fail():
    def measure(values):
        return None if values["x"] > 0 else {"loss": -values["x"] * values["y"]}

    def failed(trials):
        return sum(trial.state is TrialState.INFEASIBLE for trial in trials[10:])

    ours, chance = medians((LOSS,), measure, 30, SQUARE, failed)
    assert ours < chance


def test_only_failures_are_no_reason_to_stop():
    trials = optimized(study(*SQUARE), 1, 40, lambda _values: None)
    assert len({trial.values for trial in trials}) == 40


@pytest.mark.untraced
def test_several_objectives_have_a_better_front_than_chance():
    cost = Metric(metric_id="cost", goal=Goal.MAXIMIZE)
    metrics = (LOSS, cost)

    def measure(values):
        far = sum((value - 1) ** 2 for value in values.values())
        near = sum((value + 1) ** 2 for value in values.values())
        return {"loss": far, "cost": -near}

    def area(trials):
        """What the front leaves undominated below a loss and a cost of 30."""
        front = pareto(study(*SQUARE, metrics=metrics), trials)
        corners = sorted((trial.final.value("loss"), -trial.final.value("cost")) for trial in front)
        covered, ceiling = 0.0, 30.0
        for left, low in corners:
            if left < 30 and low < ceiling:
                covered += (30 - left) * (ceiling - low)
                ceiling = low
        return covered

    ours, chance = medians(metrics, measure, 40, SQUARE, area)
    assert ours > chance


def limited(fraction):
    safety = Safety(threshold=1.0, fraction_min=fraction)
    return (LOSS, Metric(metric_id="heat", goal=Goal.MINIMIZE, safety=safety))


def heated(values):
    return {"loss": -values["x"], "heat": values["x"] + abs(values["y"])}


def test_a_limit_is_kept_more_often_than_by_chance():
    def safe(trials):
        return sum(is_safe(study(*SQUARE, metrics=limited(0.0)), trial) for trial in trials[10:])

    ours, chance = medians(limited(0.0), heated, 40, SQUARE, safe)
    assert ours > chance


def test_too_few_safe_trials_lead_back_to_the_best_of_them():
    spec = study(*SQUARE, metrics=limited(0.9))
    trials = [
        trial(1, (("x", 4.0), ("y", 4.0)), -4.0, heat=8.0),
        trial(2, (("x", -3.0), ("y", 0.0)), 3.0, heat=-3.0),
        trial(3, (("x", -2.5), ("y", 0.0)), state=TrialState.INFEASIBLE),
    ]
    for values in suggest(spec, trials, 20, 1).values:
        far = max(abs(dict(values)["x"] + 3.0), abs(dict(values)["y"]))
        assert far < 4.5


def test_enough_safe_trials_set_the_search_free():
    many = study(*SQUARE, metrics=limited(0.2))
    none = study(*SQUARE, metrics=limited(0.0))
    draw = luck(2)
    trials = []
    for number in range(1, 21):
        values = {"x": draw.uniform(-5, 0), "y": draw.uniform(-1, 1)}
        trials.append(trial(number, tuple(values.items()), **heated(values)))
    assert suggest(many, trials, 3, 1) == suggest(none, trials, 3, 1)


@pytest.mark.parametrize("metrics", [(LOSS,), (LOSS, Metric(metric_id="cost"))])
def test_points_beside_each_other_differ_while_they_run(metrics):
    spec = study(double("x"), double("y"), metrics=metrics)
    trials = optimized(spec, 3, 20, lambda v: {"loss": v["x"], "cost": v["y"]})
    batch = [dict(values) for values in suggest(spec, trials, 8, 3).values]
    gaps = [
        abs(one["x"] - other["x"]) + abs(one["y"] - other["y"])
        for at, one in enumerate(batch)
        for other in batch[:at]
    ]
    assert min(gaps) > 0


@pytest.mark.parametrize("loss", [0.0, 1e-300, -1e300, 1e300])
def test_results_may_all_be_equal_or_extreme(loss):
    spec = study(double("x", 1e-9, 1e9, scale=Scale.REVERSE_LOG), integer("n", 1.0, 1e6))
    trials = optimized(spec, 3, 25, lambda _values: {"loss": loss})
    assert len({trial.values for trial in trials}) == 25


@pytest.mark.parametrize("rule", [1, 2])
def test_without_an_objective_points_are_random(rule):
    limit = Metric(metric_id="size", safety=Safety(threshold=0.5))
    spec = study(double("x"), metrics=(limit,), search_rule=rule)
    trials = [trial(1, (("x", 0.5),), size=0.6)]
    first, second = suggest(spec, trials, 2, seed=1).values
    assert first != second
    assert (first, second) == suggest(spec, trials, 2, seed=1).values
