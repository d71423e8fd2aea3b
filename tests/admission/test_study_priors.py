"""Labels that say where the best values of a study's parameters are expected."""

import pytest

from admission.asking import ask, group
from admission.studies import JOB, discrete, double, integer, study, when, words
from trainshed.admission import check
from trainshed.model.faults import Field, FieldPath
from trainshed.model.roles import Dialect
from trainshed.model.study import Algorithm, Metric, ParameterPrior, PriorWidth
from trainshed.model.study_priors import describe_prior, prior_key, priors_of_labels

DEPTH = when(double(name="depth"), "ReLU")
PARAMETERS = (
    double(name="Learning.Rate", bounds=(0.0, 1.0)), integer(name="n", bounds=(1.0, 200.0)),
    discrete(0.5, 16, name="d"),
    words("ReLU", "tanh_wide", "tanh", "0.5", name="act", conditions=(DEPTH,)),
)  # fmt: skip


RULE = "prior-label"


def labelled(parameters=PARAMETERS, dialect=Dialect.AIPLATFORM_V1, study_fields=None, **texts):
    labels = {f"trainshed-prior-{name}": text for name, text in texts.items()}
    spec = study(*parameters, **(study_fields or {}))
    faults = check(ask(JOB[dialect](group(), study=spec, labels=labels)))
    return [fault for fault in faults if fault.rule == RULE], priors_of_labels(spec, labels)


@pytest.mark.parametrize("dialect", sorted(Dialect, key=str))
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("learning_rate", "1e-3", ("Learning.Rate", "1e-3", PriorWidth.USUAL)),
        ("learning_rate", "0_narrow", ("Learning.Rate", "0", PriorWidth.NARROW)),
        ("n", "128_wide", ("n", "128", PriorWidth.WIDE)),
        ("d", "5e-1", ("d", "5e-1", PriorWidth.USUAL)),
        ("act", "relu", ("act", "relu", PriorWidth.USUAL)),
        ("act", "tanh_wide", ("act", "tanh_wide", PriorWidth.USUAL)),
        ("act", "tanh_narrow", ("act", "tanh", PriorWidth.NARROW)),
        ("act", "tanh_wide_wide", ("act", "tanh_wide", PriorWidth.WIDE)),
        ("act", "0_5", ("act", "0_5", PriorWidth.USUAL)),
        ("act", "5e-1", ("act", "5e-1", PriorWidth.USUAL)),
        ("depth", "1", ("depth", "1", PriorWidth.USUAL)),
    ],
)
def test_a_label_says_where_the_best_value_is_expected(name, text, expected, dialect):
    parameter_id, value, width = expected
    prior = ParameterPrior(parameter_id=parameter_id, value=value, width=width)
    assert labelled(dialect=dialect, **{name: text}) == ([], (prior,))


@pytest.mark.parametrize(
    ("name", "text", "accepted"),
    [
        ("learning_rate", "2", "numbers from 0 to 1, written as 20, 1e-3 or 25e-2"),
        ("learning_rate", "", "numbers from 0 to 1"),
        ("learning_rate", "nan", "numbers from 0 to 1"),
        ("learning_rate", "1e999", "numbers from 0 to 1"),
        ("learning_rate", "1_tight", "also with _narrow or _wide behind it"),
        ("learning_rate", "_wide", "numbers from 0 to 1"),
        ("n", "15e-1", "whole numbers from 1 to 200"),
        ("n", "201", "whole numbers from 1 to 200"),
        ("d", "1", "0.5 or 16"),
        ("act", "elu", "relu, tanh_wide, tanh or 0_5"),
    ],
)
def test_a_value_that_the_parameter_does_not_have_is_refused(name, text, accepted):
    [fault], _ = labelled(**{name: text})
    assert fault.field == FieldPath(Field.LABELS)
    assert fault.message == (
        f"the label trainshed-prior-{name} has no value of the parameter, got {text!r}"
    )
    assert accepted in fault.accepted


def test_a_label_of_no_parameter_is_refused_with_the_possible_ones():
    [fault], priors = labelled(learningrate="1")
    assert fault.message == "the label trainshed-prior-learningrate names no parameter of the study"
    assert "trainshed-prior-learning_rate, trainshed-prior-n" in fault.accepted
    assert priors == ()


def test_a_label_that_may_mean_several_is_refused():
    [fault], _ = labelled((double(name="a.b"), double(name="A/b")), a_b="1")
    assert (
        fault.message == "the label trainshed-prior-a_b may mean each of the parameters a.b or A/b"
    )
    [fault], _ = labelled((words("x+", "x-", "x*", name="w"),), w="x_")
    assert "may mean each of the words x+ or x*" in fault.message


def test_one_name_under_several_parents_needs_one_that_has_the_value():
    few, many = integer(name="n"), integer(name="n", bounds=(5.0, 9.0))
    net = words("a", "b", name="net", conditions=(when(few, "a"), when(many, "b")))
    assert labelled((net,), n="7")[0] == []
    [fault], _ = labelled((net,), n="10")
    assert "from 1 to 4" in fault.accepted
    assert "from 5 to 9" in fault.accepted


@pytest.mark.parametrize("algorithm", [Algorithm.GRID_SEARCH, Algorithm.RANDOM_SEARCH])
def test_algorithms_that_learn_nothing_take_no_prior(algorithm):
    [fault], _ = labelled((integer(name="n"),), study_fields={"algorithm": algorithm}, n="1")
    assert algorithm.value in fault.message
    assert fault.accepted == "the default algorithm, or no such label"


@pytest.mark.parametrize("dialect", sorted(Dialect, key=str))
def test_a_job_that_is_no_study_takes_no_prior(dialect):
    labels = {"trainshed-prior-lr": "1e-3"}
    [fault] = [f for f in check(ask(JOB[dialect](group(), labels=labels))) if f.rule == RULE]
    assert fault.message == "the label trainshed-prior-lr is for a tuning job, and this is none"


def test_several_metrics_take_priors():
    metrics = (Metric(metric_id="loss"), Metric(metric_id="acc"))
    assert labelled(study_fields={"metrics": metrics}, n="20")[0] == []


def test_long_names_are_cut_where_labels_end():
    name = "x" * 100
    key = prior_key(name)
    assert len(key) == 63
    assert labelled((double(name=name),), **{key.removeprefix("trainshed-prior-"): "1"})[0] == []


def test_a_prior_is_described_in_a_few_words():
    _, priors = labelled(learning_rate="1e-3_narrow", n="20")
    assert [*map(describe_prior, priors)] == ["Learning.Rate near 1e-3 (narrow)", "n near 20"]
