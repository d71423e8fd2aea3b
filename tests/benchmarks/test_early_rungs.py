"""The clock and the table of the benchmark of early rungs, with curves made by hand."""

import math
from dataclasses import replace

import pytest
from benchmarks.tuning.early_rungs import StudyPlan, StudyReplay, outcomes, points_of, row, words_of
from benchmarks.tuning.halving_strategies import RULES, is_better, strategy
from benchmarks.tuning.long_trainings import KeptCurves, LongTraining
from benchmarks.tuning.spaces import double, study_of

from trainshed.model.study import Selection

STUDY = study_of(double("rate", 0.0, 1.0))


def learn(_seed, values):
    """A loss that falls towards the rate of the trial."""
    step = 0
    while True:
        step += 1
        yield float(values["rate"]) + 1.0 / step


@pytest.fixture
def curves(tmp_path):
    training = LongTraining(study=STUDY, reports=4, stride=5, learn=learn)
    made = KeptCurves(name="hand", seed=1, training=training, file=tmp_path / "curves.jsonl")
    made.points = {f'[["rate", {rate}]]': hand(rate) for rate in (0.5, 0.25, 0.75)}
    return made


def hand(rate):
    """Four reports, a second apart."""
    return [(rate + 1.0 / step, 1.0) for step in range(1, 5)]


POINTS = [(("rate", rate),) for rate in (0.5, 0.25, 0.75)]


def test_workers_run_trials_at_once_and_the_clock_counts_all_of_them(curves):
    study = STUDY
    ours = strategy("none", study, POINTS, 1, 4)
    outcome = StudyReplay(curves, ours, study).run(None, 3)
    assert (outcome.worker_s, outcome.steps, outcome.begun, outcome.stopped) == (16.0, 60, 3, 0)
    assert [one.value for one in outcome.improvements] == [0.75, 0.5]
    assert outcome.best == 0.5


def test_the_best_measurement_of_a_trial_counts_if_it_is_selected(curves):
    rising = [(0.1 * step, 1.0) for step in (3, 1, 2, 4)]
    curves.points = {f'[["rate", {rate}]]': rising for rate in (0.5, 0.25, 0.75)}
    for selection, best in ((Selection.LAST, 0.4), (Selection.BEST, 0.1)):
        study = replace(STUDY, selection=selection)
        ours = strategy("none", study, POINTS, 1, 4)
        assert StudyReplay(curves, ours, study).run(None, 3).best == best
        trial = ours._trials[1]
        assert trial.final.metrics[0][1] == best


def test_curves_in_a_file_are_not_trained_again(curves):
    curves.store()
    values = (("rate", 0.5),)
    again = KeptCurves(name="hand", seed=1, training=curves.training, file=curves.file)
    assert again.point(values, 4) == (0.75, 1.0)
    other_seed = KeptCurves(name="hand", seed=2, training=curves.training, file=curves.file)
    assert other_seed.points == {}
    assert other_seed.point(values, 2)[0] == 1.0


@pytest.mark.parametrize("is_same", [True, False])
def test_every_strategy_gets_the_same_worker_seconds(tmp_path, is_same):
    training = LongTraining(study=STUDY, reports=6, stride=1, learn=learn)
    made = KeptCurves(name="hand", seed=3, training=training, file=tmp_path / "curves.jsonl")
    made.point = lambda values, report: (dict(values)["rate"] + 1.0 / report, 1.0)
    names = [*RULES, "hyperband", "halving"]
    plan = StudyPlan(names=names, trials=4, pool=12, order=1, is_same=is_same)
    ran = outcomes(made, plan)
    assert {one.worker_s <= ran["none"].worker_s for one in ran.values()} == {True}
    assert ran["none"].stopped == 0
    assert ran["asha"].begun >= ran["none"].begun


def test_a_study_that_never_gets_there_counts_as_infinite(curves):
    slow = StudyReplay(curves, strategy("none", STUDY, POINTS[:1], 1, 4), STUDY).run(None, 1)
    without = StudyReplay(curves, strategy("none", STUDY, POINTS, 1, 4), STUDY).run(None, 3)
    line = row("same", "hand", "slow", [(STUDY, slow, without)])
    assert (line.time_ratio, line.reached, line.won, line.lost) == (math.inf, 0, 0, 1)
    even = row("same", "hand", "none", [(STUDY, without, without)])
    assert (even.time_ratio, even.step_ratio, even.reached) == (1.0, 55 / 60, 1)


def test_orders_have_the_same_points():
    plan = StudyPlan(names=(), trials=2, pool=6, order=0, is_same=True)
    first, second = points_of(STUDY, 5, plan), points_of(STUDY, 5, replace(plan, order=1))
    assert first != second
    assert sorted(first) == sorted(second)


def test_words_and_values():
    assert words_of(("a", "b"), "a,b") == ["a", "b"]
    with pytest.raises(Exception, match="must be some of a, b, got c"):
        words_of(("a", "b"), "a,c")
    assert is_better(STUDY, 2.0, math.nan)
    assert not is_better(STUDY, 2.0, 1.0)
