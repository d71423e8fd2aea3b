"""Search spaces and trials in them, for tests: by hand, and drawn by Hypothesis."""

import math
from itertools import count
from random import Random

from hypothesis import strategies as st

from trainshed.model.study import (
    Algorithm,
    Condition,
    Goal,
    Metric,
    ParameterKind,
    ParameterSpec,
    Scale,
    StudySpec,
)
from trainshed.model.trials import Measurement, TrialRecord, TrialState

LOSS = Metric(metric_id="loss", goal=Goal.MINIMIZE)


def double(name="lr", low=0.0, high=1.0, **fields):
    kind = ParameterKind.DOUBLE
    return ParameterSpec(parameter_id=name, kind=kind, bounds=(low, high), **fields)


def integer(name="n", low=1.0, high=4.0, **fields):
    kind = ParameterKind.INTEGER
    return ParameterSpec(parameter_id=name, kind=kind, bounds=(low, high), **fields)


def discrete(*values, name="d", **fields):
    kind = ParameterKind.DISCRETE
    return ParameterSpec(parameter_id=name, kind=kind, values=values, **fields)


def words(*values, name="opt", **fields):
    kind = ParameterKind.CATEGORICAL
    return ParameterSpec(parameter_id=name, kind=kind, values=values, **fields)


def when(parameter, *values):
    return Condition(parent_values=values, parameter=parameter)


def study(*parameters, metrics=(LOSS,), **fields):
    return StudySpec(metrics=metrics, parameters=parameters, **fields)


def trial(number, values, loss=None, state=TrialState.SUCCEEDED, **other_metrics):
    """A trial as the store has it; with a loss it has succeeded."""
    if loss is None and state is TrialState.SUCCEEDED:
        state = TrialState.ACTIVE
    metrics = (("loss", loss), *other_metrics.items())
    final = Measurement(metrics=metrics) if state is TrialState.SUCCEEDED else None
    return TrialRecord(number=number, values=values, state=state, final=final)


def luck(seed):
    """Chance for a test."""
    return Random(seed)  # noqa: S311  # a test draws, not a cipher


def loss_of(values):
    """Some result for any point, the same whenever it is asked for."""
    rated = [len(v) * 0.3 if isinstance(v, str) else math.tanh(v / 10) for _, v in values]
    return sum((rating - 0.2) ** 2 for rating in rated)


def active_of(parameters, values):
    """The names and specs that a point must have, in their order (docs/sources/vertex.md 8)."""
    active = []
    for spec in parameters:
        active.append((spec.parameter_id, spec))
        value = values.get(spec.parameter_id)
        for condition in spec.conditions:
            if any(is_same(value, parent_value) for parent_value in condition.parent_values):
                active += active_of([condition.parameter], values)
    return active


def is_same(value, other):
    if isinstance(value, str) or isinstance(other, str):
        return value == other
    return value is not None and abs(value - other) <= 1e-10


def is_inside(values, study_spec):
    """Whether a point has exactly the active parameters, with values of their kinds."""
    active = active_of(study_spec.parameters, dict(values))
    names = [name for name, _ in values]
    return names == [name for name, _ in active] and all(
        has_value(spec, value) for (_, spec), (_, value) in zip(active, values, strict=True)
    )


def has_value(spec, value):
    if spec.kind is ParameterKind.DOUBLE:
        return type(value) is float and spec.bounds[0] <= value <= spec.bounds[1]
    if spec.kind is ParameterKind.INTEGER:
        return type(value) is int and spec.bounds[0] <= value <= spec.bounds[1]
    return type(value) is type(spec.values[0]) and value in spec.values


SCALES = st.sampled_from(Scale)
LOGS = (Scale.LOG, Scale.REVERSE_LOG)
WORDS = st.lists(st.sampled_from(["adam", "sgd", "x", "-y", ""]), min_size=1, max_size=4)


@st.composite
def studies(draw, *, finite=False, algorithm=None, depth=3):
    """A study of any kinds, scales, defaults and conditions."""
    names = count()
    parameters = [
        draw(parameter(names, depth, finite=finite))
        for _ in range(draw(st.integers(min_value=1, max_value=3)))
    ]
    chosen = algorithm or draw(st.sampled_from(Algorithm))
    return study(*parameters, algorithm=chosen)


@st.composite
def parameter(draw, names, depth, *, finite, name=None):
    kinds = [kind for kind in ParameterKind if not finite or kind is not ParameterKind.DOUBLE]
    spec = draw(PLAIN[draw(st.sampled_from(kinds))](name or f"p{next(names)}"))
    if depth <= 1 or spec.kind is ParameterKind.DOUBLE or not draw(st.booleans()):
        return spec
    return with_children(draw, spec, names, depth, finite=finite)


def with_children(draw, spec, names, depth, *, finite):
    """Each value of the parent has its own child, of one name or of several."""
    choices = spec.values or range(int(spec.bounds[0]), int(spec.bounds[1]) + 1)[:4]
    met = draw(st.lists(st.sampled_from(list(choices)), unique=True, max_size=3))
    shared = f"p{next(names)}" if draw(st.booleans()) else None
    conditions = [
        Condition(
            parent_values=(value,),
            parameter=draw(parameter(names, depth - 1, finite=finite, name=shared)),
        )
        for value in met
    ]
    return ParameterSpec(
        parameter_id=spec.parameter_id,
        kind=spec.kind,
        bounds=spec.bounds,
        values=spec.values,
        scale=spec.scale,
        default=spec.default,
        conditions=tuple(conditions),
    )


def maybe(values):
    return st.one_of(st.none(), values)


@st.composite
def doubles(draw, name):
    scale = draw(SCALES)
    least = 1e-12 if scale in LOGS else -1e6
    low, high = sorted(draw(st.tuples(*[st.floats(least, 1e6)] * 2)))
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        high = low
    default = draw(maybe(st.floats(low, high)))
    return double(name, low, high, scale=scale, default=default)


@st.composite
def integers(draw, name):
    scale = draw(SCALES)
    low = draw(st.integers(1 if scale in LOGS else -5, 9))
    high = low + draw(st.integers(0, 4))
    default = draw(maybe(st.integers(low, high).map(float)))
    return integer(name, float(low), float(high), scale=scale, default=default)


@st.composite
def discretes(draw, name):
    scale = draw(SCALES)
    least = 0.001 if scale in LOGS else -100.0
    steps = draw(st.lists(st.floats(0.001, 50.0), min_size=0, max_size=4))
    values = [draw(st.floats(least, 100.0))]
    for step in steps:
        values.append(values[-1] + step)
    default = draw(maybe(st.sampled_from(values)))
    return discrete(*values, name=name, scale=scale, default=default)


@st.composite
def categories(draw, name):
    values = draw(WORDS)
    return words(*values, name=name, default=draw(maybe(st.sampled_from(values))))


PLAIN = {
    ParameterKind.DOUBLE: doubles,
    ParameterKind.INTEGER: integers,
    ParameterKind.DISCRETE: discretes,
    ParameterKind.CATEGORICAL: categories,
}
