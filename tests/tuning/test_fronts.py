"""How the Pareto front of a study grew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.study import Goal, Metric, Safety, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.tuning.fronts import FrontStep, describe_front, front_history
from trainshed.tuning.ranking import pareto

ACC = Metric(metric_id="acc")
LOSS = Metric(metric_id="loss", goal=Goal.MINIMIZE)
THIRD = Metric(metric_id="third")
SIZE = Metric(metric_id="size", goal=Goal.MINIMIZE, safety=Safety(threshold=8.0))


def study(*metrics):
    return StudySpec(metrics=metrics, parameters=())


def done(number, state=TrialState.SUCCEEDED, **metrics):
    final = Measurement(metrics=tuple(metrics.items()))
    return TrialRecord(number=number, state=state, final=final)


def test_a_front_grows_by_the_trials_that_enter_it():
    trials = [
        done(1, acc=0.0, loss=1.0),
        done(2, acc=1.0, loss=3.0),
        done(3, acc=0.5, loss=4.0),
        done(4, acc=1.0, loss=2.0),
        done(5, acc=2.0, loss=5.0),
    ]
    # the rectangle: acc from 0 to 2, loss from 5 to 1
    assert front_history(study(ACC, LOSS), trials[::-1]) == (
        FrontStep(trial=1, size=1, volume=0.0),
        FrontStep(trial=2, size=2, volume=0.25),
        FrontStep(trial=4, size=2, volume=0.375),
        FrontStep(trial=5, size=3, volume=0.375),
    )


def test_trials_that_are_unsafe_or_have_no_result_are_not_in_the_front():
    trials = [
        done(1, acc=5.0, loss=1.0, size=9.0),
        done(2, acc=5.0, loss=1.0, state=TrialState.INFEASIBLE, size=1.0),
        done(3, acc=1.0, loss=1.0, size=8.0),
    ]
    assert [step.trial for step in front_history(study(ACC, LOSS, SIZE), trials)] == [3]


@pytest.mark.parametrize("metrics", [(ACC,), (ACC, SIZE), (SIZE,)])
def test_one_objective_has_no_front(metrics):
    assert front_history(study(*metrics), [done(1, acc=1.0, size=1.0)]) == ()


def test_more_than_two_objectives_have_a_size_alone():
    trials = [done(1, acc=1.0, loss=1.0, third=1.0), done(2, acc=0.0, loss=0.0, third=1.0)]
    history = front_history(study(ACC, LOSS, THIRD), trials)
    assert [(step.size, step.volume) for step in history] == [(1, None), (2, None)]


def test_equal_values_have_no_volume():
    assert front_history(study(ACC, LOSS), [done(1, acc=1.0, loss=1.0)]) == (
        FrontStep(trial=1, size=1),
    )
    assert front_history(study(ACC, LOSS), []) == ()


VALUES = st.integers(0, 4).map(float)


@given(points=st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=30))
def test_the_last_step_is_the_front_and_the_volume_never_shrinks(points):
    trials = [
        done(number, acc=acc, loss=loss, size=10 * size)
        for number, (acc, loss, size) in enumerate(points, 1)
    ]
    whole = study(ACC, LOSS, SIZE)
    history, front = front_history(whole, trials), pareto(whole, trials)
    assert (history[-1].size if history else 0) == len(front)
    assert {trial.number for trial in front} <= {step.trial for step in history}
    volumes = [step.volume for step in history if step.volume is not None]
    assert volumes == sorted(volumes)
    assert all(0 <= volume <= 1 + 1e-9 for volume in volumes)


@pytest.mark.parametrize(
    ("count", "size", "text"),
    [
        (1, None, "Pareto front of 1 trial: 1"),
        (3, None, "Pareto front of 3 trials: 1, 2, 3"),
        (14, None, "Pareto front of 14 trials: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more"),
        (12, 40, "Pareto front of 40 trials: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 28 more"),
    ],
)
def test_a_front_is_described_by_its_size_and_first_trials(count, size, text):
    assert describe_front(range(1, count + 1), size) == text
