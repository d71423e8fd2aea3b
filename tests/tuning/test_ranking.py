"""Better, safe, best, and the Pareto front."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.study import Goal, Metric, Safety, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.tuning.ranking import best, better, is_safe, objectives, pareto

ACC = Metric(metric_id="acc")
LOSS = Metric(metric_id="loss", goal=Goal.MINIMIZE)
MEMORY = Metric(metric_id="memory", goal=Goal.MINIMIZE, safety=Safety(threshold=8.0))


def study(*metrics):
    return StudySpec(metrics=metrics, parameters=())


def done(number, state=TrialState.SUCCEEDED, **metrics):
    final = Measurement(metrics=tuple(metrics.items())) if metrics else None
    return TrialRecord(number=number, state=state, final=final)


def test_a_metric_with_a_limit_is_no_objective():
    assert objectives(study(ACC, MEMORY, LOSS)) == (ACC, LOSS)


def test_equal_is_not_better():
    assert not better(Goal.MAXIMIZE, 1.0, 1.0)
    assert better(Goal.MAXIMIZE, 2.0, 1.0)
    assert better(Goal.MINIMIZE, 1.0, 2.0)


@pytest.mark.parametrize(("memory", "safe"), [(7.0, True), (8.0, True), (8.1, False)])
def test_at_the_limit_is_safe(memory, safe):
    assert is_safe(study(ACC, MEMORY), done(1, acc=1.0, memory=memory)) is safe


def test_what_was_not_measured_is_not_safe():
    assert not is_safe(study(ACC, MEMORY), done(1, acc=1.0))
    assert not is_safe(study(MEMORY), done(1, TrialState.ACTIVE))
    assert is_safe(study(ACC), done(1, TrialState.ACTIVE))


def test_the_best_is_safe_has_succeeded_and_is_the_first_of_equals():
    trials = [
        done(5, acc=0.8, memory=1.0),
        done(1, acc=0.9, memory=9.0),
        done(2, TrialState.INFEASIBLE, acc=0.9, memory=1.0),
        done(4, acc=0.8, memory=1.0),
        done(3, acc=0.7, memory=1.0),
    ]
    assert best(study(ACC, MEMORY), trials).number == 4


def test_where_no_trial_is_safe_there_is_no_best():
    assert best(study(ACC, MEMORY), [done(1, acc=0.9, memory=9.0)]) is None


def test_several_objectives_have_a_front_and_no_best():
    trials = [
        done(1, acc=0.9, loss=2.0),
        done(2, acc=0.8, loss=1.0),
        done(3, acc=0.8, loss=2.0),
        done(4, acc=0.9, loss=2.0),
    ]
    assert best(study(ACC, LOSS), trials) is None
    assert [trial.number for trial in pareto(study(ACC, LOSS), trials)] == [1, 2, 4]


pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=15)


@given(pairs, st.randoms())
def test_the_front_is_who_nobody_beats_in_any_order(values, draw):
    trials = [done(n, acc=float(a), loss=float(b)) for n, (a, b) in enumerate(values, start=1)]
    beaten = {
        one
        for one in set(values)
        if any(a >= one[0] and b <= one[1] and (a, b) != one for a, b in values)
    }
    expected = [n for n, one in enumerate(values, start=1) if one not in beaten]
    draw.shuffle(trials)
    assert [trial.number for trial in pareto(study(ACC, LOSS), trials)] == expected
