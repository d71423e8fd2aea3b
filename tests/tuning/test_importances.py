"""Importances of parameters: those of the report of a study, for the page of a study."""

from random import Random

import pytest

from trainshed.model.study import Goal, Metric, ParameterKind, ParameterSpec, Scale, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.tuning.importances import importances, valued_trials

ACC = Metric(metric_id="acc")
STUDY = StudySpec(
    metrics=(ACC,),
    parameters=(
        ParameterSpec(
            parameter_id="<b>lr</b>",
            kind=ParameterKind.DOUBLE,
            bounds=(1e-5, 1.0),
            scale=Scale.LOG,
        ),
        ParameterSpec(parameter_id="seed", kind=ParameterKind.INTEGER, bounds=(1.0, 9.0)),
    ),
)


def trial(number, acc, state=TrialState.SUCCEEDED, **values):
    final = Measurement(metrics=(("acc", acc),)) if state is TrialState.SUCCEEDED else None
    return TrialRecord(number=number, state=state, values=tuple(values.items()), final=final)


def drawn(count):
    chance = Random(1)  # noqa: S311 - a test draws
    for number in range(1, count + 1):
        lr, seed = 10 ** chance.uniform(-5, 0), chance.randint(1, 9)
        yield trial(number, lr, **{"<b>lr</b>": lr, "seed": seed})


@pytest.mark.untraced
@pytest.mark.parametrize("goal", Goal)
def test_the_parameter_that_decides_the_result_is_the_important_one(goal):
    metric = Metric(metric_id="acc", goal=goal)
    shares = importances(STUDY, metric, list(drawn(60)))
    assert list(shares) == ["<b>lr</b>", "seed"], "ids, and not labels without markup"
    assert shares["<b>lr</b>"] > 0.8
    assert sum(shares.values()) == pytest.approx(1.0)


def test_few_trials_and_trials_without_parameters_have_none():
    assert importances(STUDY, ACC, list(drawn(4))) == {}
    assert importances(STUDY, ACC, [trial(n, 0.5) for n in range(1, 9)]) == {}


def test_only_succeeded_trials_with_a_value_count():
    others = [trial(8, 0, TrialState.ACTIVE), trial(9, 0, TrialState.INFEASIBLE)]
    numbers = [one.number for one in valued_trials(ACC, [*drawn(7), *others])]
    assert numbers == [1, 2, 3, 4, 5, 6, 7]
    assert valued_trials(Metric(metric_id="loss"), list(drawn(7))) == []
