"""Limits, first values, early stopping and the end of a study (docs/sources/vertex.md 8)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.asking import ask, group
from admission.studies import (
    ACCURACY,
    JOB,
    discrete,
    double,
    integer,
    of_parameters,
    rules,
    study,
    violations,
    when,
    words,
)
from trainshed.admission import check
from trainshed.model.early_stopping import STOPPING_LABEL, stopping_with_labels
from trainshed.model.faults import Field, FieldPath
from trainshed.model.roles import Dialect
from trainshed.model.study import (
    AshaRule,
    ConvexRule,
    DecayCurveRule,
    EndingRules,
    MedianRule,
    Metric,
    Safety,
    Scale,
    TimeLimit,
)
from trainshed.model.study_places import StudyField

LOSS = Metric(metric_id="loss")
STOPPING = (MedianRule(), DecayCurveRule(), ConvexRule(), AshaRule())


def limit(threshold=1.0, fraction=0.5):
    safety = Safety(threshold=threshold, fraction_min=fraction)
    return Metric(metric_id="latency", safety=safety)


def fields(spec):
    return [v.field.place.field for v in violations(spec)]


@pytest.mark.parametrize(
    ("make", "default", "is_accepted"),
    [
        (lambda default: double(default=default), 0.1, True),
        (lambda default: double(default=default), 1.0, True),
        (lambda default: double(default=default), 1.5, False),
        (lambda default: double(default=default), math.nan, False),
        (lambda default: double(default=default), math.inf, False),
        (lambda default: integer(default=default), 4.0, True),
        (lambda default: integer(default=default), 5.0, False),
        (lambda default: integer(default=default), 1.5, False),
        (lambda default: words("a", "b", default=default), "b", True),
        (lambda default: words("a", "b", default=default), "c", False),
        (lambda default: words("a", "b", default=default), "", False),
        (lambda default: discrete(0.0, 0.2, default=default), 0.0, True),
        (lambda default: discrete(0.1, 0.2, default=default), 0.2 + 1e-11, True),
        (lambda default: discrete(0.1, 0.2, default=default), 0.15, False),
    ],
)
def test_a_first_value_is_one_that_the_parameter_can_have(make, default, is_accepted):
    child = integer("parent", conditions=(when(make(default), 1.0),))
    for parameter in (make(default), child):
        assert of_parameters(parameter) == ([] if is_accepted else ["study-default"])


def test_a_parameter_without_values_is_refused_for_that_and_not_for_its_first_value():
    assert of_parameters(double(bounds=None, default=1.0)) == ["study-bounds"]
    assert of_parameters(words(default="a")) == ["study-values"]


def test_a_word_is_given_once_and_has_no_scale():
    assert of_parameters(words("a", "b", "a")) == ["study-values"]
    assert of_parameters(words("a", "b", scale=Scale.LINEAR)) == ["study-scale"]


def test_bounds_are_near_enough_to_each_other_and_whole_numbers_exact():
    assert of_parameters(double(bounds=(-1.7e308, 1.7e308))) == ["study-bounds"]
    assert of_parameters(integer(bounds=(0.0, 2.0**53))) == []
    assert of_parameters(integer(bounds=(0.0, 2.0**53 + 2))) == ["study-bounds"]


@pytest.mark.parametrize(
    ("metric", "field"),
    [
        (limit(math.nan), StudyField.SAFETY_THRESHOLD),
        (limit(math.inf), StudyField.SAFETY_THRESHOLD),
        (limit(fraction=-0.1), StudyField.SAFETY_FRACTION),
        (limit(fraction=1.1), StudyField.SAFETY_FRACTION),
        (limit(fraction=math.nan), StudyField.SAFETY_FRACTION),
    ],
)
def test_a_limit_is_a_number_and_a_share_is_one(metric, field):
    spec = study(metrics=(ACCURACY, metric))
    assert rules(spec) == ["study-safety"]
    assert fields(spec) == [field]


def test_one_metric_at_least_is_no_limit():
    assert rules(study(metrics=(limit(),))) == ["study-safety"]
    assert rules(study(metrics=(limit(), ACCURACY))) == []
    assert rules(study(metrics=(limit(fraction=0.0), ACCURACY))) == []
    assert rules(study(metrics=())) == ["study-metrics"]


@pytest.mark.parametrize("rule", STOPPING)
def test_trials_are_stopped_early_by_one_objective(rule):
    assert rules(study(stopping=rule)) == []
    assert rules(study(metrics=(ACCURACY, limit()), stopping=rule)) == []
    assert rules(study(metrics=(ACCURACY, LOSS), stopping=rule)) == ["study-stopping"]
    assert rules(study(metrics=(ACCURACY, LOSS))) == []


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"learning_rate_parameter": "rate"}, StudyField.LEARNING_RATE),
        ({"step_count_max": 9, "step_count_min": 10}, StudyField.STEPS_MIN),
        ({"step_count_max": -1}, StudyField.STEPS_MAX),
        ({"step_count_min": -1}, StudyField.STEPS_MIN),
        ({"measurement_count_min": -1}, StudyField.MEASUREMENTS_MIN),
    ],
)
def test_a_convex_rule_that_cannot_apply_is_refused(rule, field):
    spec = study(stopping=ConvexRule(**rule))
    assert rules(spec) == ["study-stopping"]
    assert fields(spec) == [field]


def test_a_convex_rule_may_name_any_parameter():
    deep = integer(conditions=(when(double("rate"), 2.0),))
    rule = ConvexRule(step_count_max=9, step_count_min=9, learning_rate_parameter="rate")
    assert of_parameters(deep, stopping=rule) == []


def test_the_rules_of_an_end_may_all_be_given():
    ending = EndingRules(
        runtime_min=TimeLimit(seconds=0.0),
        runtime_max=TimeLimit(until="2026-08-22T00:00:00.123456789Z"),
        trial_count_min=3,
        trial_count_max=3,
        trials_without_progress_max=1,
        seconds_without_progress_max=0.5,
    )
    assert rules(study(ending=ending)) == []
    assert rules(study(ending=EndingRules(runtime_min=TimeLimit()))) == []


MIN, MAX = StudyField.RUNTIME_MIN, StudyField.RUNTIME_MAX


@pytest.mark.parametrize(
    ("ending", "field"),
    [
        ({"trial_count_min": 4, "trial_count_max": 3}, StudyField.ENDING_TRIALS_MIN),
        ({"trial_count_min": -1}, StudyField.ENDING_TRIALS_MIN),
        ({"trial_count_max": 0}, StudyField.ENDING_TRIALS_MAX),
        ({"trials_without_progress_max": 0}, StudyField.TRIALS_WITHOUT_PROGRESS),
        ({"seconds_without_progress_max": 0.0}, StudyField.TIME_WITHOUT_PROGRESS),
        ({"runtime_min": TimeLimit(seconds=-1.0)}, MIN),
        ({"runtime_max": TimeLimit(seconds=0.0)}, MAX),
        ({"runtime_max": TimeLimit(until="2026-13-45T00:00:00Z")}, MAX),
        ({"runtime_min": TimeLimit(until="2026-11-21T25:00:00Z")}, MIN),
        ({"runtime_max": TimeLimit(until="0001-01-01T00:00:00+14:00")}, MAX),
        ({"runtime_max": TimeLimit(until="2026-08-21T23:59:59Z")}, MAX),
        ({"runtime_max": TimeLimit(until="2026-08-22T00:00:00+02:00")}, MAX),
        ({"runtime_min": TimeLimit(seconds=9.0), "runtime_max": TimeLimit(seconds=8.0)}, MIN),
        (
            {
                "runtime_min": TimeLimit(until="2030-01-02T00:00:00Z"),
                "runtime_max": TimeLimit(until="2030-01-02T00:30:00+01:00"),
            },
            MIN,
        ),
    ],
)
def test_an_end_that_cannot_be_is_refused_at_its_field(ending, field):
    spec = study(ending=EndingRules(**ending))
    assert rules(spec) == ["study-ending"]
    assert fields(spec) == [field]


@pytest.mark.parametrize(
    "ending", [{"trials_without_progress_max": 3}, {"seconds_without_progress_max": 3.0}]
)
def test_progress_is_that_of_one_objective(ending):
    settings = {"ending": EndingRules(**ending)}
    assert rules(study(metrics=(ACCURACY, LOSS), **settings)) == ["study-ending"]
    assert rules(study(metrics=(ACCURACY, limit()), **settings)) == []


LIMITS = st.none() | st.builds(
    TimeLimit,
    seconds=st.none() | st.floats(-10, 10),
    until=st.none() | st.text(max_size=6) | st.sampled_from(["2030-01-01", "2030-01-01T00:00:00Z"]),
)
COUNTS = st.none() | st.integers(-2, 5)


@given(
    st.builds(
        EndingRules,
        runtime_min=LIMITS,
        runtime_max=LIMITS,
        trial_count_min=COUNTS,
        trial_count_max=COUNTS,
        trials_without_progress_max=COUNTS,
        seconds_without_progress_max=st.none() | st.floats(-2, 2),
    )
)
def test_any_end_is_answered_in_whole_sentences(ending):
    for violation in violations(study(metrics=(ACCURACY, LOSS), ending=ending)):
        assert violation.message
        assert violation.accepted
        assert "None" not in violation.message


def labelled(spec, text, dialect=Dialect.AIPLATFORM_V1):
    job = JOB[dialect](group(), study=spec, labels={STOPPING_LABEL: text})
    return [v for v in check(ask(job)) if v.rule in {"early-stopping-label", "study-stopping"}]


@pytest.mark.parametrize("dialect", sorted(Dialect, key=str))
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("asha", AshaRule(pauses=True)),
        ("asha-4", AshaRule(reduction=4, pauses=True)),
        ("asha-2-20", AshaRule(reduction=2, first_rung=20, pauses=True)),
        ("asha-3-60s", AshaRule(first_rung=60, by_time=True)),
        ("median", MedianRule()),
        ("decay-curve", DecayCurveRule()),
        ("convex", ConvexRule()),
    ],
)
def test_a_label_names_the_rule_of_early_stopping(text, rule, dialect):
    assert labelled(study(), text, dialect) == []
    assert stopping_with_labels(study(), {STOPPING_LABEL: text}) == rule


@pytest.mark.parametrize(
    "text", ["", "none", "asha-", "asha-1", "asha-0", "asha-3-0", "asha-4-20m", "decay_curve"]
)
def test_any_other_label_of_early_stopping_is_refused_with_what_is_accepted(text):
    (fault,) = labelled(study(), text)
    assert fault.rule == "early-stopping-label"
    assert fault.field == FieldPath(Field.LABELS)
    assert repr(text) in fault.message
    assert all(word in fault.accepted for word in ("asha-4-20s", "median", "decay-curve", "convex"))
    assert stopping_with_labels(study(), {STOPPING_LABEL: text}) is None


def test_a_label_and_a_study_with_another_rule_are_refused():
    (fault,) = labelled(study(stopping=DecayCurveRule()), "asha-4")
    assert fault.message == (
        "the label trainshed-early-stopping is asha-4, and the study has the rule decay-curve"
    )
    assert fault.accepted == "decay-curve, or a study without a rule"


def test_a_label_with_the_rule_of_the_study_leaves_its_numbers():
    spec = study(stopping=MedianRule(by_time=True))
    assert labelled(spec, "median") == []
    assert stopping_with_labels(spec, {STOPPING_LABEL: "median"}) == spec.stopping


def test_in_ml_v1_the_label_says_which_rule_early_stopping_is():
    spec = study(stopping=DecayCurveRule())
    assert labelled(spec, "asha", Dialect.ML_V1) == []
    assert stopping_with_labels(spec, {STOPPING_LABEL: "asha"}) == AshaRule(pauses=True)


def test_a_label_stops_no_trials_of_several_objectives():
    (fault,) = labelled(study(metrics=(LOSS, Metric(metric_id="acc"))), "asha")
    assert (fault.rule, fault.field) == ("study-stopping", FieldPath(Field.LABELS))


def test_the_label_of_a_job_without_a_study_has_no_meaning():
    job = JOB[Dialect.AIPLATFORM_V1](group(), labels={STOPPING_LABEL: "fast"})
    assert check(ask(job)) == ()
