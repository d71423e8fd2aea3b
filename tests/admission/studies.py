"""Studies of the model in few words, and what admission says of them."""

from admission.asking import ask, group, ml, vertex
from trainshed.admission import check
from trainshed.model.roles import Dialect
from trainshed.model.study import Condition, Metric, ParameterKind, ParameterSpec, StudySpec

JOB = {Dialect.ML_V1: ml, Dialect.AIPLATFORM_V1: vertex}
ACCURACY = Metric(metric_id="accuracy")


def double(name="lr", bounds=(0.1, 1.0), **fields):
    kind = ParameterKind.DOUBLE
    return ParameterSpec(parameter_id=name, kind=kind, bounds=bounds, **fields)


def integer(name="n", bounds=(1.0, 4.0), **fields):
    kind = ParameterKind.INTEGER
    return ParameterSpec(parameter_id=name, kind=kind, bounds=bounds, **fields)


def discrete(*values, name="d", **fields):
    kind = ParameterKind.DISCRETE
    return ParameterSpec(parameter_id=name, kind=kind, values=values, **fields)


def words(*values, name="opt", **fields):
    kind = ParameterKind.CATEGORICAL
    return ParameterSpec(parameter_id=name, kind=kind, values=values, **fields)


def when(parameter, *values):
    return Condition(parent_values=values, parameter=parameter)


def study(*parameters, metrics=(ACCURACY,), **fields):
    return StudySpec(metrics=metrics, parameters=parameters or (double(),), **fields)


def violations(spec, dialect=Dialect.AIPLATFORM_V1):
    return check(ask(JOB[dialect](group(), study=spec)))


def rules(spec, dialect=Dialect.AIPLATFORM_V1):
    return [v.rule for v in violations(spec, dialect) if v.rule.startswith("study-")]


def of_parameters(*parameters, **fields):
    return rules(study(*parameters, **fields))
