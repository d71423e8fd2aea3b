"""Which trials are stopped early: the median rule by hand, and what holds for every rule."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainshed.model.study import (
    AshaRule,
    ConvexRule,
    DecayCurveRule,
    Goal,
    MedianRule,
    Metric,
    Safety,
    StudySpec,
)
from trainshed.model.trials import EarlyStop, Measurement, TrialRecord, TrialState
from trainshed.tuning.stopping import JUDGES, predicted, to_stop

RULES = (
    MedianRule(),
    DecayCurveRule(),
    ConvexRule(measurement_count_min=2),
    AshaRule(first_rung=2),
)


def study(rule=RULES[0], goal=Goal.MAXIMIZE):
    return StudySpec(metrics=(Metric(metric_id="acc", goal=goal),), parameters=(), stopping=rule)


def trial(number, values, state=TrialState.ACTIVE, steps=None, times=None, **more):
    steps = steps or range(1, len(values) + 1)
    times = times or [float(step) for step in steps]
    points = tuple(
        Measurement(step=step, elapsed_s=at, metrics=(("acc", value),))
        for step, at, value in zip(steps, times, values, strict=True)
    )
    final = points[-1] if state is TrialState.SUCCEEDED else None
    return TrialRecord(number=number, state=state, measurements=points, final=final, **more)


def done(number, values, **more):
    return trial(number, values, TrialState.SUCCEEDED, **more)


# the running averages at step 3 are 2, 4 and 6: their median is 4
THREE = (done(1, [1, 2, 3, 90]), done(2, [3, 4, 5, 90]), done(3, [5, 6, 7, 90]))


def test_every_rule_is_judged():
    assert JUDGES.keys() == {type(rule) for rule in RULES}


@pytest.mark.parametrize(("values", "stopped"), [([1, 3, 2], True), ([1, 4, 2], False)])
def test_strictly_below_the_median_of_the_running_averages_is_stopped(values, stopped):
    assert (4 in to_stop(study(), [*THREE, trial(4, values)])) is stopped


def test_the_reason_has_the_numbers():
    assert to_stop(study(), [*THREE, trial(4, [1, 3, 2])]) == {
        4: EarlyStop(
            rule="median",
            metric="acc",
            value=3.0,
            bar=4.0,
            at=3.0,
            reason="Its best acc at step 3 is 3, and the median of the averages of 3 completed "
            "trials up to this point is 4",
        )
    }


def test_the_reason_has_the_numbers_of_a_metric_that_is_minimised():
    trials = [mirrored(t) for t in [*THREE, trial(4, [1, 3, 2])]]
    stop = to_stop(study(goal=Goal.MINIMIZE), trials)[4]
    assert "best acc at step 3 is -3" in stop.reason
    assert stop.reason.endswith("is -4")
    assert (stop.value, stop.bar) == (-3.0, -4.0)


def test_by_time_compares_at_the_same_second():
    late = [replace(t, measurements=at_times(t, 10.0)) for t in THREE]
    # after 30 s the others' averages are 2, 4 and 6; by its steps the trial had come to step 9
    slow = trial(4, [1, 3, 2], steps=[7, 8, 9], times=[10.0, 20.0, 30.0])
    stop = to_stop(study(MedianRule(by_time=True)), [*late, slow])[4]
    assert stop.reason.startswith("Its best acc after 30 s is 3, ")
    assert (stop.at, stop.by_time) == (30.0, True)


def at_times(trial, apart):
    return tuple(replace(m, elapsed_s=apart * m.step) for m in trial.measurements)


def test_a_young_trial_and_a_young_study_are_let_be():
    assert to_stop(study(), [*THREE, trial(4, [1, 1])]) == {}
    assert to_stop(study(), [*THREE[:2], trial(4, [1, 1, 1])]) == {}


def test_a_trial_that_was_stopped_makes_no_median():
    stopped = [done(n, [0, 0, 0], stopped_early=True) for n in (5, 6, 7, 8)]
    assert to_stop(study(), [*THREE[:2], *stopped, trial(4, [1, 1, 1])]) == {}
    assert 4 in to_stop(study(), [*THREE, *stopped, trial(4, [1, 3, 2])])


@pytest.mark.parametrize("state", sorted(set(TrialState) - {TrialState.ACTIVE}, key=str))
def test_only_active_trials_are_stopped(state):
    assert to_stop(study(), [*THREE, trial(4, [0, 0, 0], state)]) == {}


def test_a_program_that_never_gives_a_step_is_compared_by_count():
    def unstepped(t):
        return replace(t, measurements=tuple(replace(m, step=0) for m in t.measurements))

    bad, good = trial(4, [1, 3, 2]), trial(5, [1, 4, 2])
    assert list(to_stop(study(), [unstepped(t) for t in (*THREE, bad, good)])) == [4]


@pytest.mark.parametrize("rule", [*RULES, None])
def test_several_objectives_are_never_stopped_early(rule):
    two = StudySpec(
        metrics=(Metric(metric_id="acc"), Metric(metric_id="loss")), parameters=(), stopping=rule
    )
    trials = [*many_done(), trial(9, [0.0, 0.1, 0.0, 0.0, 0.0, 0.0])]
    assert to_stop(two, trials) == {}
    assert predicted(two, trials) == {}


@pytest.mark.parametrize("rule", RULES)
def test_a_limit_beside_the_objective_does_not_prevent_stopping(rule):
    limit = Metric(metric_id="memory", safety=Safety(threshold=1.0))
    spec = replace(study(rule), metrics=(limit, Metric(metric_id="acc")))
    safe = [
        replace(t, final=replace(t.final, metrics=(*t.final.metrics, ("memory", 2.0))))
        for t in many_done()
    ]
    bad = trial(9, [0.0, 0.1, 0.0, 0.0, 0.0, 0.0])
    assert list(to_stop(spec, [*safe, bad])) == [9]


def many_done():
    return [
        done(n, [0.5, 0.7 + n / 100, 0.8, 0.85, 0.88, 0.9, 0.9, 0.9, 0.9, 0.9 + n / 100])
        for n in range(1, 7)
    ]


def mirrored(trial):
    def turned(one):
        return one and replace(one, metrics=tuple((name, -value) for name, value in one.metrics))

    points = tuple(turned(one) for one in trial.measurements)
    return replace(trial, measurements=points, final=turned(trial.final))


# whole numbers: a sum is exact, and so is a tie
curves = st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=8)


@st.composite
def studies(draw):
    trials = []
    for number, values in enumerate(draw(st.lists(curves, min_size=1, max_size=9)), start=1):
        state = draw(
            st.sampled_from([TrialState.ACTIVE, TrialState.SUCCEEDED, TrialState.SUCCEEDED])
        )
        trials.append(trial(number, values, state, stopped_early=draw(st.booleans())))
    return trials


@given(studies(), st.integers(-1000, 1000))
def test_an_offset_does_not_change_the_median_verdict(trials, offset):
    moved = [with_values(trial, lambda value: value + offset) for trial in trials]
    assert to_stop(study(), moved).keys() == to_stop(study(), trials).keys()


def with_values(trial, change):
    def changed(one):
        return one and replace(one, metrics=tuple((n, change(value)) for n, value in one.metrics))

    points = tuple(changed(one) for one in trial.measurements)
    return replace(trial, measurements=points, final=changed(trial.final))


@given(studies(), st.lists(st.integers(1, 100), min_size=8, max_size=8))
def test_new_names_for_the_steps_do_not_change_the_median_verdict(trials, gaps):
    names = [sum(gaps[:step]) for step in range(9)]
    renamed = [
        replace(
            trial, measurements=tuple(replace(m, step=names[m.step]) for m in trial.measurements)
        )
        for trial in trials
    ]
    assert to_stop(study(), renamed).keys() == to_stop(study(), trials).keys()


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50)
@given(trials=studies())
def test_maximising_and_minimising_are_mirror_images(rule, trials):
    up = to_stop(study(rule), trials).keys()
    down = to_stop(study(rule, Goal.MINIMIZE), [mirrored(trial) for trial in trials]).keys()
    assert up == down


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50)
@given(trials=studies(), draw=st.randoms())
def test_the_order_of_trials_does_not_matter(rule, trials, draw):
    shuffled = list(trials)
    draw.shuffle(shuffled)
    assert to_stop(study(rule), shuffled) == to_stop(study(rule), trials)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50)
@given(trials=studies())
def test_the_trial_that_is_better_than_all_others_is_never_stopped(rule, trials):
    active = [trial for trial in trials if trial.state is TrialState.ACTIVE]
    assume(active)
    best = with_values(active[0], lambda value: value + 41)
    rest = [trial for trial in trials if trial.number != best.number]
    assert best.number not in to_stop(study(rule), [*rest, best])


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50)
@given(trials=studies())
def test_whoever_is_stopped_was_active_and_has_a_reason(rule, trials):
    active = {trial.number for trial in trials if trial.state is TrialState.ACTIVE}
    stopped = to_stop(study(rule), trials)
    assert stopped.keys() <= active
    assert all(stopped.values())
