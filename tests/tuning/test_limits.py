"""Which limits a trial breaks, in words, and the share of safe trials."""

import pytest

from trainshed.model.study import Goal, Metric, Safety, StudySpec
from trainshed.model.trials import BrokenLimit, Measurement, TrialRecord, TrialState
from trainshed.tuning.limits import broken_limits, count_safe, describe_safety

ACC = Metric(metric_id="acc")
SIZE = Metric(metric_id="size", goal=Goal.MINIMIZE, safety=Safety(threshold=0.6, fraction_min=0.5))
RECALL = Metric(metric_id="recall", safety=Safety(threshold=8.0, fraction_min=0.75))
STUDY = StudySpec(metrics=(ACC, SIZE, RECALL), parameters=())


def done(number=1, state=TrialState.SUCCEEDED, **metrics):
    final = Measurement(metrics=tuple(metrics.items())) if metrics else None
    return TrialRecord(number=number, state=state, final=final)


@pytest.mark.parametrize(
    ("metrics", "reasons"),
    [
        ({"size": 0.6, "recall": 8.0}, []),
        ({"size": 0.71, "recall": 9.0}, ["size 0.71 > 0.6"]),
        ({"size": 0.71, "recall": 7.5}, ["size 0.71 > 0.6", "recall 7.5 < 8"]),
        ({"size": 0.6000000001, "recall": 8.0}, ["size 0.6000000001 > 0.6"]),
        ({"recall": 8.0}, ["size was not measured"]),
    ],
)
def test_a_broken_limit_names_metric_value_and_threshold(metrics, reasons):
    limits = broken_limits(STUDY, done(acc=1.0, **metrics))
    assert [limit.reason for limit in limits] == reasons


def test_a_broken_limit_has_its_numbers():
    (limit,) = broken_limits(STUDY, done(size=0.71, recall=9.0))
    reason = "size 0.71 > 0.6"
    assert limit == BrokenLimit(metric="size", value=0.71, threshold=0.6, reason=reason)


@pytest.mark.parametrize("state", [TrialState.ACTIVE, TrialState.INFEASIBLE, TrialState.REQUESTED])
def test_a_trial_without_a_result_breaks_no_limit(state):
    assert broken_limits(STUDY, done(state=state)) == ()


def test_safe_trials_are_counted_among_all_that_ended():
    trials = [
        done(1, size=0.5, recall=9.0),
        done(2, size=0.7, recall=9.0),
        done(3, TrialState.INFEASIBLE),
        done(4, TrialState.ACTIVE),
        done(5, size=0.6, recall=8.0),
    ]
    count = count_safe(STUDY, trials)
    assert (count.safe, count.ended, count.fraction_min) == (2, 4, 0.75)
    assert describe_safety(STUDY, trials) == (
        "size at most 0.6, recall at least 8: 2 of 4 ended trials are safe (50%); "
        "the study aims at 75%"
    )


def test_a_study_without_ended_trials_has_no_share():
    limit = Metric(metric_id="size", goal=Goal.MINIMIZE, safety=Safety(threshold=4.0))
    study = StudySpec(metrics=(ACC, limit), parameters=())
    assert describe_safety(study, []) == "size at most 4: 0 of 0 ended trials are safe"


def test_a_study_without_limits_says_nothing():
    study = StudySpec(metrics=(ACC,), parameters=())
    assert count_safe(study, [done(acc=1.0)]) is None
    assert describe_safety(study, [done(acc=1.0)]) == ""
