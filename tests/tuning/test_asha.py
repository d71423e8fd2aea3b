"""Which trials successive halving stops: by hand, and what holds for all curves."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainshed.model.study import AshaRule, DecayCurveRule, Goal, Metric, StudySpec
from trainshed.model.trials import EarlyStop, Measurement, TrialRecord, TrialState
from trainshed.tuning.asha import rung_index, rungs_of
from trainshed.tuning.curves import curves as curves_of_trials
from trainshed.tuning.stopping import to_stop

STEPS = 27


def study(rule=None, goal=Goal.MAXIMIZE, **more):
    rule = rule or AshaRule()
    metrics = (Metric(metric_id="acc", goal=goal),)
    fields = {"trial_count_max": 9, **more}
    return StudySpec(metrics=metrics, parameters=(), stopping=rule, **fields)


def trial(number, values, state=TrialState.ACTIVE, stride=1, **more):
    points = tuple(
        Measurement(step=stride * at, elapsed_s=10.0 * stride * at, metrics=(("acc", value),))
        for at, value in enumerate(values, start=1)
    )
    final = points[-1] if state is TrialState.SUCCEEDED else None
    return TrialRecord(number=number, state=state, measurements=points, final=final, **more)


def done(number, value, steps=STEPS, **more):
    return trial(number, [value] * steps, TrialState.SUCCEEDED, **more)


def flat(number, value, steps):
    return trial(number, [value] * steps)


def test_the_rungs_are_shares_of_the_longest_trial_that_ended_by_itself():
    trials = [done(1, 5.0), flat(2, 4.0, 4), flat(3, 6.0, 2)]
    assert [(rung.at, rung.values) for rung in rungs_of(study(), trials)] == [
        (3.0, {1: 5.0, 2: 4.0}),
        (9.0, {1: 5.0}),
    ]


@pytest.mark.parametrize(
    ("trials_max", "reduction", "rungs"),
    [
        (2, 3, []),
        (3, 3, [9]),
        (9, 3, [3, 9]),
        (26, 3, [3, 9]),
        (16, 4, [2, 7]),
        (1000, 2, [1, 2, 4, 7, 14]),
    ],
)
def test_there_are_as_many_rungs_as_the_trials_have_powers(trials_max, reduction, rungs):
    spec = study(AshaRule(reduction=reduction), trial_count_max=trials_max)
    assert [rung.at for rung in rungs_of(spec, [done(1, 1.0)])] == rungs


def test_no_rung_is_too_early_in_the_longest_trial():
    spec = study(trial_count_max=10_000)
    assert [rung.at for rung in rungs_of(spec, [done(1, 1.0, steps=270)])] == [10, 30, 90]


def test_until_a_trial_has_ended_the_rungs_begin_at_the_third_report():
    trials = [trial(1, [1.0] * 2, stride=4), trial(2, [2.0] * 7, stride=4), flat(3, 3.0, 40)]
    assert [rung.at for rung in rungs_of(study(), trials)] == [3.0, 9.0, 27.0]
    assert [rung.at for rung in rungs_of(study(), trials[:2])] == [12.0]
    assert rungs_of(study(), trials[:1]) == ()


def test_steps_below_0_make_no_rung():
    before = replace(
        flat(1, 1.0, 3),
        measurements=tuple(
            Measurement(step=step, metrics=(("acc", 1.0),)) for step in (-9, -6, -3)
        ),
    )
    assert rungs_of(study(), [before]) == ()


def test_stopped_and_failed_trials_have_not_ended_by_themselves():
    stopped = trial(4, [1.0] * STEPS, TrialState.SUCCEEDED, stopped_early=True)
    failed = trial(5, [1.0] * 90, TrialState.INFEASIBLE)
    rungs = rungs_of(study(), [flat(1, 1.0, 9), stopped, failed])
    assert [(rung.at, rung.values.keys()) for rung in rungs] == [
        (3.0, {1, 4}),
        (9.0, {1, 4}),
        (27.0, {4}),
    ]


def test_until_a_trial_has_ended_only_a_third_of_the_trials_is_stopped():
    running = [flat(n, float(n), 3) for n in (1, 2, 3)]
    stopped = [trial(n, [0.0] * 3, TrialState.SUCCEEDED, stopped_early=True) for n in range(4, 7)]
    assert list(to_stop(study(), [*running, *stopped[:2]])) == [1, 2]
    assert to_stop(study(), [*running, *stopped]) == {}
    assert rungs_of(study(), [*running, *stopped]) == ()
    assert 1 in to_stop(study(), [*running, *stopped, done(9, 9.0)])


def test_a_given_first_rung_needs_no_trial_that_has_ended():
    spec = study(AshaRule(first_rung=2))
    trials = [flat(1, 1.0, 7), flat(2, 2.0, 2), flat(3, 3.0, 3), flat(4, 4.0, 1)]
    assert [(rung.at, rung.bar) for rung in rungs_of(spec, trials)] == [(2.0, 3.0), (6.0, None)]
    assert list(to_stop(spec, trials)) == [2]
    assert [rung.at for rung in rungs_of(spec, [*trials, done(5, 1.0)])] == [2.0, 6.0, 18.0]


def test_only_the_best_third_of_a_rung_continues():
    trials = [done(1, 5.0), *(flat(n, float(n), 3) for n in (2, 3, 4, 6, 7))]
    stops = to_stop(study(), trials)
    assert list(stops) == [2, 3, 4]
    assert stops[3] == EarlyStop(
        rule="asha",
        metric="acc",
        value=3.0,
        bar=6.0,
        at=3.0,
        reason="Its best acc at step 3, rung 1 of 2, is 3, rank 5 of 6 trials; the best 2 "
        "continue, from 6",
        rung=1,
    )


def test_fewer_trials_than_the_factor_stop_none():
    trials = [done(1, 5.0), flat(2, 1.0, 3)]
    assert to_stop(study(), trials) == {}
    reason = to_stop(study(), [*trials, flat(3, 2.0, 3)])[2].reason
    assert reason.endswith("rank 3 of 3 trials; the best one continues, from 5")


def test_a_trial_is_judged_at_the_last_rung_that_it_has_passed():
    # at step 3 it is the last of four, at step 9 the second of two
    late = trial(9, [0.0] * 5 + [9.0] * 5)
    rivals = [flat(n, float(n), 3) for n in (2, 3)]
    assert 9 not in to_stop(study(), [done(1, 9.5), *rivals, late])
    young = replace(late, measurements=late.measurements[:5])
    assert 9 in to_stop(study(), [done(1, 9.5), *rivals, young])


def test_an_early_trial_is_judged_again_when_rivals_arrive():
    first = flat(2, 1.0, 5)
    trials = [done(1, 2.0), first]
    assert to_stop(study(), trials) == {}
    assert 2 in to_stop(study(), [*trials, flat(3, 3.0, 3)])


def test_stopped_trials_count_at_their_rungs_and_failed_ones_do_not():
    stopped = trial(3, [3.0] * 3, TrialState.SUCCEEDED, stopped_early=True)
    stopping = trial(4, [3.0] * 3, TrialState.STOPPING, stopped_early=True)
    failed = trial(5, [3.0] * 3, TrialState.INFEASIBLE)
    running = flat(2, 1.0, 3)
    for other in (stopped, stopping):
        assert 2 in to_stop(study(), [done(1, 2.0), running, other])
    assert to_stop(study(), [done(1, 2.0), running, failed]) == {}


def test_a_report_between_rungs_counts_at_the_next_one_before_it():
    # reports at steps 4, 8 and 12: those at 4 and 12 are the first after the rungs 3 and 9
    sparse = trial(2, [1.0, 7.0, 8.0], stride=4)
    rungs = rungs_of(study(), [done(1, 5.0), sparse])
    assert [rung.values[2] for rung in rungs] == [1.0, 8.0]
    assert [rung_index(rungs, at) for at in (2.0, 3.0, 8.0, 9.0, 27.0)] == [None, 0, 0, 1, 1]


def test_a_minimised_metric_has_its_own_sign():
    spec = study(goal=Goal.MINIMIZE)
    trials = [done(1, 1.0), flat(2, 2.0, 3), flat(3, 3.0, 3)]
    assert [rung.bar for rung in rungs_of(spec, trials)] == [1.0, None]
    stop = to_stop(spec, trials)[3]
    assert (stop.value, stop.bar) == (3.0, 1.0)


def test_by_time_rungs_are_seconds():
    spec = study(AshaRule(by_time=True))
    trials = [done(1, 5.0, steps=20), flat(2, 1.0, 3), flat(3, 2.0, 3)]
    assert [rung.at for rung in rungs_of(spec, trials)] == pytest.approx([200 / 9, 200 / 3])
    stop = to_stop(spec, trials)[2]
    assert stop.by_time
    assert stop.reason.startswith("Its best acc after 22.2222 s, rung 1 of 2, is 1, ")


def test_rungs_are_those_of_given_curves_too():
    trials = [done(1, 5.0), flat(2, 4.0, 4), trial(3, [9.0] * 27, TrialState.INFEASIBLE)]
    all_curves = curves_of_trials(study().metrics[0], trials, by_time=False)
    bare = [replace(one, measurements=()) for one in trials]
    assert rungs_of(study(), bare, all_curves) == rungs_of(study(), trials)


def test_other_studies_have_no_rungs():
    trials = [done(1, 5.0)]
    assert rungs_of(study(DecayCurveRule()), trials) == ()
    two = replace(study(), metrics=(Metric(metric_id="acc"), Metric(metric_id="loss")))
    assert rungs_of(two, trials) == ()


@pytest.mark.parametrize("points", [(), (Measurement(metrics=(("acc", -9.0),)),)])
def test_a_trial_without_steps_is_never_stopped(points):
    silent = TrialRecord(number=9, measurements=points)
    assert 9 not in to_stop(
        study(AshaRule(first_rung=1)), [*map(done, (1, 2, 3), (1, 2, 3)), silent]
    )


# whole numbers, so that there are ties
curves = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=12)


@st.composite
def studies(draw):
    rule = AshaRule(
        reduction=draw(st.integers(2, 4)),
        first_rung=draw(st.one_of(st.none(), st.integers(1, 6))),
    )
    trials = []
    for number, values in enumerate(draw(st.lists(curves, min_size=1, max_size=12)), start=1):
        state = draw(st.sampled_from([TrialState.ACTIVE, TrialState.SUCCEEDED]))
        stopped_early = state is TrialState.SUCCEEDED and draw(st.booleans())
        trials.append(trial(number, values, state, stopped_early=stopped_early))
    return study(rule, trial_count_max=draw(st.integers(1, 100))), trials


@given(studies())
def test_the_leader_is_never_stopped(case):
    spec, trials = case
    top = max(max(m.metrics[0][1] for m in one.measurements) for one in trials)
    leaders = {
        one.number for one in trials if any(m.metrics[0][1] == top for m in one.measurements)
    }
    assert not leaders & to_stop(spec, trials).keys()


@given(studies(), st.randoms())
def test_the_order_of_trials_and_their_numbers_do_not_matter(case, draw):
    spec, trials = case
    numbers = [one.number + 100 for one in trials]
    draw.shuffle(numbers)
    renamed = dict(zip((one.number for one in trials), numbers, strict=True))
    moved = [replace(one, number=renamed[one.number]) for one in trials]
    draw.shuffle(moved)
    expected = {renamed[number]: stop for number, stop in to_stop(spec, trials).items()}
    assert to_stop(spec, moved) == expected


@given(studies(), st.integers(0, 5), st.data())
def test_a_better_trial_is_not_stopped_where_a_worse_one_continues(case, gain, data):
    spec, trials = case
    active = [one for one in trials if one.state is TrialState.ACTIVE]
    assume(active)
    worse = data.draw(st.sampled_from(active))
    better = raised(worse, gain)
    rest = [one for one in trials if one.number != worse.number]
    if worse.number not in to_stop(spec, trials):
        assert better.number not in to_stop(spec, [*rest, better])


def raised(one, gain):
    points = tuple(
        replace(m, metrics=tuple((name, value + gain) for name, value in m.metrics))
        for m in one.measurements
    )
    return replace(one, measurements=points)


@given(studies())
def test_of_two_trials_at_a_rung_the_better_one_is_not_the_only_one_that_is_stopped(case):
    spec, trials = case
    stops = to_stop(spec, trials)
    rungs = rungs_of(spec, trials)
    for number in stops:
        at = next(one for one in trials if one.number == number).measurements[-1].step
        rung = rungs[rung_index(rungs, at)]
        assert rung.values[number] < rung.bar
        assert sum(value >= rung.bar for value in rung.values.values()) >= 1


@settings(max_examples=50)
@given(studies())
def test_at_least_the_share_of_a_rung_continues(case):
    spec, trials = case
    for rung in rungs_of(spec, trials):
        passing = (
            len(rung.values)
            if rung.bar is None
            else sum(value >= rung.bar for value in rung.values.values())
        )
        assert passing >= len(rung.values) // spec.stopping.reduction
