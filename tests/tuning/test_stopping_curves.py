"""The decay-curve and the convex rule, by hand; and what the convex rule predicts."""

import math
from dataclasses import replace

import pytest

from trainshed.model.study import ConvexRule, DecayCurveRule, Goal, Metric, Selection, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.tuning.stopping import predicted, to_stop

CONVEX = ConvexRule(measurement_count_min=2, step_count_max=10)


def study(rule, **more):
    return StudySpec(metrics=(Metric(metric_id="acc"),), parameters=(), stopping=rule, **more)


def trial(number, values, state=TrialState.ACTIVE, **more):
    points = tuple(
        Measurement(step=at, elapsed_s=10.0 * at, metrics=(("acc", value),))
        for at, value in enumerate(values, start=1)
    )
    final = points[-1] if state is TrialState.SUCCEEDED else None
    return TrialRecord(number=number, state=state, measurements=points, final=final, **more)


def rising(top, steps=20, speed=4.0):
    """Exponential learning up to ``top``."""
    return [top * (1 - math.exp(-step / speed)) for step in range(1, steps + 1)]


def past(count=6):
    tops = (0.9, 0.8, 0.85, 0.95, 0.7, 0.88)
    return [trial(n + 1, rising(tops[n]), TrialState.SUCCEEDED) for n in range(count)]


def test_a_hopeless_curve_is_stopped_and_one_like_the_best_is_not():
    hopeless, hopeful = trial(8, rising(0.3)[:8]), trial(9, rising(0.94)[:8])
    stops = to_stop(study(DecayCurveRule()), [*past(), hopeless, hopeful])
    assert list(stops) == [8]
    assert stops[8].reason.startswith("Its chance to beat acc 0.943599 of trial 4 is ")
    assert stops[8].reason.endswith(" %, by the curves of 6 completed trials")
    assert stops[8].value < stops[8].bar


def slowing(top, steps=20):
    """Errors that fall as a power of the step, as those of networks do: fast first, then long."""
    return [top - (top - 0.1) / step**1.5 for step in range(1, steps + 1)]


def test_what_tells_good_curves_apart_is_learned_where_bad_ones_differ_by_far_more():
    tops = (0.2, 0.97, 0.3, 0.955, 0.965, 0.15)
    done = [trial(n, slowing(top), TrialState.SUCCEEDED) for n, top in enumerate(tops, start=1)]
    behind, ahead = trial(8, slowing(0.94)[:10]), trial(9, slowing(0.975)[:10])
    assert list(to_stop(study(DecayCurveRule()), [*done, behind, ahead])) == [8]


@pytest.mark.parametrize(("search_rule", "stopped"), [(1, [8, 9]), (2, [8])])
def test_a_quick_curve_that_would_be_the_best_is_not_stopped_early(search_rule, stopped):
    ends = (0.9618, 0.9152, 0.9336)
    done = [
        trial(n, rising(end, steps=27, speed=3.0), TrialState.SUCCEEDED)
        for n, end in enumerate(ends, start=1)
    ]
    behind, ahead = (trial(n, rising(end, 5, 3.0)) for n, end in ((8, 0.85), (9, 0.9875)))
    judged = study(DecayCurveRule(), search_rule=search_rule)
    assert list(to_stop(judged, [*done, behind, ahead])) == stopped


def test_a_curve_before_the_first_place_of_the_past_is_not_judged():
    done = [trial(n, rising(0.9 + n / 100, steps=100), TrialState.SUCCEEDED) for n in (1, 2, 3)]
    young = trial(8, [0.0] * 6)
    assert not to_stop(study(DecayCurveRule(), search_rule=2), [*done, young])


def test_a_curve_that_has_passed_the_best_is_not_stopped_when_it_falls():
    falling = trial(8, [0.5, 0.96, 0.1, 0.1, 0.1, 0.1])
    rival = trial(9, [0.97, 0.97, 0.97])
    assert to_stop(study(DecayCurveRule()), [*past(), falling, rival]) == {}


@pytest.mark.parametrize("rule", [DecayCurveRule(), CONVEX])
def test_nothing_is_stopped_before_enough_trials_are_done(rule):
    assert to_stop(study(rule), [*past(2), trial(9, rising(0.1)[:9])]) == {}


def test_the_same_curves_by_time_are_judged_the_same():
    trials = [*past(), trial(8, rising(0.3)[:8])]
    by_step, by_time = (
        to_stop(study(DecayCurveRule(by_time=flag)), trials) for flag in (False, True)
    )
    assert [stop.reason for stop in by_step.values()] == [stop.reason for stop in by_time.values()]
    assert list(by_step) == [8]


# completed at 5, 6 and 7 after 10 steps; the best is 7
DONE = tuple(trial(n, [float(n)] * 4 + [n + 4.0] * 6, TrialState.SUCCEEDED) for n in (1, 2, 3))


@pytest.mark.parametrize(("values", "stopped"), [([1.0, 1.5, 2.0], True), ([1.0, 2.0, 3.0], False)])
def test_a_straight_line_to_the_last_step_is_the_most_that_is_hoped_for(values, stopped):
    # at step 10 the first reaches 2 + 7 * 0.5 = 5.5, the second 3 + 7 = 10
    assert (9 in to_stop(study(CONVEX), [*DONE, trial(9, values)])) is stopped


def test_the_reason_says_how_far_it_would_come():
    stop = to_stop(study(CONVEX), [*DONE, trial(9, [1.0, 1.5, 2.0])])[9]
    assert stop.reason == "Its acc at step 10 would be 5.5 at best, and trial 3 has 7"
    assert (stop.rule, stop.value, stop.bar, stop.at) == ("convex", 5.5, 7.0, 3.0)


def test_a_falling_curve_is_taken_at_its_best():
    assert 9 in to_stop(study(CONVEX), [*DONE, trial(9, [3.0, 2.0, 1.0])])
    assert to_stop(study(CONVEX), [*DONE, trial(9, [7.0, 2.0, 1.0])]) == {}


def test_a_flat_curve_says_nothing():
    assert to_stop(study(CONVEX), [*DONE, trial(9, [1.0] * 9)]) == {}


@pytest.mark.parametrize(
    "rule",
    [
        replace(CONVEX, step_count_min=3),
        replace(CONVEX, measurement_count_min=4),
        replace(CONVEX, measurement_count_min=3),
        ConvexRule(),
    ],
)
def test_what_the_study_asks_for_first_is_waited_for(rule):
    assert to_stop(study(rule), [*DONE, trial(9, [1.0, 1.5, 2.0])]) == {}


def test_a_tenth_of_the_steps_are_let_be_where_nothing_else_is_said():
    long = replace(CONVEX, step_count_max=None)
    lasting = [trial(n, [float(n)] * 40, TrialState.SUCCEEDED) for n in (1, 2, 3)]
    young, older = trial(8, [0.5, 0.5, 0.49, 0.49]), trial(9, [0.5, 0.5, 0.49, 0.49, 0.49])
    assert list(to_stop(study(long), [*lasting, young, older])) == [9]


def test_by_time_the_most_steps_are_seconds():
    rule = replace(CONVEX, by_time=True, step_count_max=100)
    stop = to_stop(study(rule), [*DONE, trial(9, [1.0, 1.5, 2.0])])[9]
    assert stop.reason == "Its acc after 100 s would be 5.5 at best, and trial 3 has 7"


def stopped(number, values, state=TrialState.STOPPING, **more):
    return trial(number, values, state, stopped_early=True, **more)


def test_the_predicted_end_is_what_completed_trials_have_gained():
    predictions = predicted(study(CONVEX), [*DONE, stopped(9, [1.0, 1.0, 1.5])])
    assert predictions.keys() == {9}
    assert (predictions[9].step, predictions[9].elapsed_s) == (10, 30.0)
    # every completed trial gained 4 behind its step 3
    assert predictions[9].value("acc") == pytest.approx(5.5)


def test_a_prediction_is_never_better_than_the_best():
    predictions = predicted(study(CONVEX), [*DONE, stopped(9, [3.0, 4.0, 6.0])])
    assert 6.99 < predictions[9].value("acc") < 7.0
    mirrored = [
        replace(t, measurements=tuple(map(turned, t.measurements)), final=turned(t.final))
        for t in (*DONE, stopped(9, [3.0, 4.0, 6.0]))
    ]
    down = replace(study(CONVEX), metrics=(Metric(metric_id="acc", goal=Goal.MINIMIZE),))
    assert -7.0 < predicted(down, mirrored)[9].value("acc") < -6.99


def turned(one):
    return one and replace(one, metrics=tuple((name, -value) for name, value in one.metrics))


def test_a_better_learning_rate_has_a_better_prediction():
    rule = replace(CONVEX, learning_rate_parameter="rate")
    earlier = [
        at_rate(rate, trial(n, [1.0] * 3 + [1.0 + gain] * 7, TrialState.SUCCEEDED))
        for n, (rate, gain) in enumerate([(0.001, 1.0), (0.01, 2.0), (0.1, 3.0)], start=1)
    ]
    two = [at_rate(10.0**-n, stopped(6 + n, [1.0, 0.9, 1.0])) for n in (2, 3)]
    predictions = predicted(study(rule), [*earlier, *two])
    assert predictions[8].value("acc") > predictions[9].value("acc")
    blind = predicted(study(CONVEX), [*earlier, *two])
    assert blind[8].value("acc") == blind[9].value("acc")


def at_rate(rate, trial):
    return replace(trial, values=(("rate", rate),))


def test_stored_trials_are_predicted_anew_only_where_the_study_says_so():
    trials = [*DONE, stopped(9, [1.0, 1.5, 2.0], TrialState.SUCCEEDED)]
    assert predicted(study(CONVEX), trials) == {}
    every = replace(CONVEX, update_all_stopped_trials=True)
    assert predicted(study(every), trials).keys() == {9}


def test_only_what_a_rule_has_stopped_is_predicted():
    ended_otherwise = trial(9, [1.0, 1.5, 2.0], TrialState.STOPPING)
    assert predicted(study(CONVEX), [*DONE, ended_otherwise]) == {}
    assert predicted(study(DecayCurveRule()), [*DONE, stopped(9, [1.0, 2.0])]) == {}


def test_where_the_best_measurement_counts_a_worse_prediction_is_left_out():
    best = study(CONVEX, selection=Selection.BEST)
    falling = [trial(n, [6.0 + n, 5.0, 4.0, 1.0], TrialState.SUCCEEDED) for n in (1, 2, 3)]
    assert predicted(best, [*falling, stopped(9, [3.0, 3.5, 3.2])]) == {}
    assert predicted(best, [*DONE, stopped(9, [1.0, 1.0, 1.5])]).keys() == {9}
