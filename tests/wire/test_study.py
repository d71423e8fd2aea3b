"""Every field of a study reaches the model, in both dialects (docs/sources/vertex.md 7.1, 8).

A study of the model is written as a document by the code below, which nobody shares with the
reader: what the reader loses or mixes up makes another study.
"""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.model.study import (
    Algorithm,
    Condition,
    ConvexRule,
    DecayCurveRule,
    EndingRules,
    Goal,
    MedianRule,
    Metric,
    Noise,
    ParameterKind,
    ParameterSpec,
    Safety,
    Scale,
    Selection,
    StudySpec,
    TimeLimit,
)
from trainshed.wire.aiplatform_v1 import parse as aiplatform_v1_parse
from trainshed.wire.descriptors import message_class
from trainshed.wire.detect import parse
from trainshed.wire.fields import table
from trainshed.wire.parsed import snake

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**53), 2**53)
COUNTS = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(min_size=1, max_size=5)
SECONDS = st.integers(-5000, 5000).map(float) | st.sampled_from([0.5, 3.25])

METRICS = st.builds(
    Metric,
    metric_id=NAMES,
    goal=st.sampled_from(Goal),
    safety=st.none() | st.builds(Safety, threshold=NUMBERS, fraction_min=NUMBERS),
)


def parameters(values, kind, **more):
    return st.builds(ParameterSpec, parameter_id=NAMES, kind=st.just(kind), **values, **more)


RANGES = {"bounds": st.tuples(NUMBERS, NUMBERS), "default": st.none() | NUMBERS}
INTEGERS = {
    "bounds": st.tuples(WHOLE, WHOLE).map(lambda pair: tuple(map(float, pair))),
    "default": st.none() | WHOLE.map(float),
}
WORDS = {"values": st.lists(NAMES, max_size=3).map(tuple), "default": st.none() | NAMES}
LISTS = {"values": st.lists(NUMBERS, max_size=3).map(tuple), "default": st.none() | NUMBERS}
VALUES = {
    ParameterKind.DOUBLE: RANGES,
    ParameterKind.INTEGER: INTEGERS,
    ParameterKind.CATEGORICAL: WORDS,
    ParameterKind.DISCRETE: LISTS,
}
PARENTS = st.lists(NAMES, min_size=1, max_size=2) | st.lists(NUMBERS, min_size=1, max_size=2)


def any_parameter(depth):
    inner = st.builds(
        Condition, parent_values=PARENTS.map(tuple), parameter=st.deferred(lambda: deeper(depth))
    )
    conditions = st.lists(inner, max_size=2 if depth else 0).map(tuple)
    scale = st.sampled_from(Scale)
    return st.one_of(
        parameters(values, kind, scale=scale, conditions=conditions)
        for kind, values in VALUES.items()
    )


def deeper(depth):
    return any_parameter(depth - 1)


LIMITS = st.none() | st.builds(TimeLimit, seconds=SECONDS) | st.just(TimeLimit())
DATES = st.just(TimeLimit(until="2030-01-01T00:00:00Z"))
ENDING = st.builds(
    EndingRules,
    stop_asap=st.booleans(),
    runtime_min=LIMITS | DATES,
    runtime_max=LIMITS | DATES,
    trial_count_min=st.none() | COUNTS,
    trial_count_max=st.none() | COUNTS,
    trials_without_progress_max=st.none() | COUNTS,
    seconds_without_progress_max=st.none() | SECONDS,
)
STOPPING = st.one_of(
    st.none(),
    st.builds(MedianRule, by_time=st.booleans()),
    st.builds(DecayCurveRule, by_time=st.booleans()),
    st.builds(
        ConvexRule,
        step_count_max=st.none() | st.integers(1, 2**40),
        step_count_min=st.none() | st.integers(0, 2**40),
        measurement_count_min=st.none() | st.integers(0, 9),
        learning_rate_parameter=st.none() | NAMES,
        by_time=st.booleans(),
        update_all_stopped_trials=st.booleans(),
    ),
)
COUNTED = {
    "trial_count_max": COUNTS,
    "trial_count_parallel": COUNTS,
    "trial_count_failed_max": COUNTS,
    "algorithm": st.sampled_from(Algorithm),
}
VERTEX = st.builds(
    StudySpec,
    metrics=st.lists(METRICS, max_size=3).map(tuple),
    parameters=st.lists(any_parameter(2), max_size=3).map(tuple),
    selection=st.sampled_from(Selection),
    noise=st.sampled_from(Noise),
    stopping=STOPPING,
    ending=ENDING,
    **COUNTED,
)
ML_VALUES = {
    kind: {k: v for k, v in specs.items() if k != "default"} for kind, specs in VALUES.items()
}
ML_PARAMETERS = st.one_of(
    parameters(values, kind, scale=st.sampled_from(Scale)) for kind, values in ML_VALUES.items()
)
ML = st.builds(
    StudySpec,
    metrics=st.tuples(st.builds(Metric, metric_id=NAMES, goal=st.sampled_from(Goal))),
    parameters=st.lists(ML_PARAMETERS, max_size=4).map(tuple),
    stopping=st.sampled_from([None, DecayCurveRule()]),
    resume_previous_job_id=st.none() | NAMES,
    **COUNTED,
)

ALGORITHM = {Algorithm.DEFAULT: "ALGORITHM_UNSPECIFIED"}
SCALE = {
    Scale.LINEAR: "UNIT_LINEAR_SCALE",
    Scale.LOG: "UNIT_LOG_SCALE",
    Scale.REVERSE_LOG: "UNIT_REVERSE_LOG_SCALE",
}


def drop_unset(**fields):
    return {name: value for name, value in fields.items() if value is not None}


def vertex_document(study):
    rules = {
        MedianRule: "medianAutomatedStoppingSpec",
        DecayCurveRule: "decayCurveStoppingSpec",
        ConvexRule: "convexAutomatedStoppingSpec",
    }
    early = {rules[type(study.stopping)]: rule_json(study.stopping)} if study.stopping else {}
    noise = "OBSERVATION_NOISE_UNSPECIFIED" if study.noise is Noise.DEFAULT else study.noise.value
    return {
        "maxTrialCount": study.trial_count_max,
        "parallelTrialCount": study.trial_count_parallel,
        "maxFailedTrialCount": study.trial_count_failed_max,
        "studySpec": {
            "metrics": [metric_json(metric) for metric in study.metrics],
            "parameters": [parameter_json(parameter) for parameter in study.parameters],
            "algorithm": ALGORITHM.get(study.algorithm, study.algorithm.value),
            "measurementSelectionType": f"{study.selection.value}_MEASUREMENT",
            "observationNoise": noise,
            "studyStoppingConfig": ending_json(study.ending),
            **early,
        },
        "trialJobSpec": {},
    }


def metric_json(metric):
    document = {"metricId": metric.metric_id, "goal": metric.goal.value}
    if metric.safety:
        document["safetyConfig"] = {
            "safetyThreshold": metric.safety.threshold,
            "desiredMinSafeTrialsFraction": metric.safety.fraction_min,
        }
    return document


def parameter_json(parameter):
    kind, default = parameter.kind, parameter.default
    bounds = parameter.bounds or (None, None)
    if kind is ParameterKind.INTEGER:
        bounds = tuple(str(int(bound)) for bound in bounds)
        default = None if default is None else str(int(default))
    is_range = kind in (ParameterKind.DOUBLE, ParameterKind.INTEGER)
    values = drop_unset(
        minValue=bounds[0],
        maxValue=bounds[1],
        values=None if is_range else list(parameter.values),
        defaultValue=default,
    )
    return drop_unset(
        **{f"{kind.value.lower()}ValueSpec": values},
        parameterId=parameter.parameter_id,
        scaleType=SCALE.get(parameter.scale),
        conditionalParameterSpecs=[condition_json(condition) for condition in parameter.conditions],
    )


def condition_json(condition):
    values = condition.parent_values
    if isinstance(values[0], str):
        name, values = "parentCategoricalValues", list(values)
    elif all(value.is_integer() and abs(value) < 2**53 for value in values):
        name, values = "parentIntValues", [str(int(value)) for value in values]
    else:
        name, values = "parentDiscreteValues", list(values)
    return {name: {"values": values}, "parameterSpec": parameter_json(condition.parameter)}


def rule_json(rule):
    document = {"useElapsedDuration": rule.by_time}
    if isinstance(rule, ConvexRule):
        document |= drop_unset(
            maxStepCount=rule.step_count_max,
            minStepCount=rule.step_count_min,
            minMeasurementCount=rule.measurement_count_min,
            learningRateParameterName=rule.learning_rate_parameter,
            updateAllStoppedTrials=rule.update_all_stopped_trials,
        )
    return document


def ending_json(rules):
    return drop_unset(
        shouldStopAsap=rules.stop_asap,
        minimumRuntimeConstraint=limit_json(rules.runtime_min),
        maximumRuntimeConstraint=limit_json(rules.runtime_max),
        minNumTrials=rules.trial_count_min,
        maxNumTrials=rules.trial_count_max,
        maxNumTrialsNoProgress=rules.trials_without_progress_max,
        maxDurationNoProgress=duration(rules.seconds_without_progress_max),
    )


def limit_json(limit):
    return limit and drop_unset(maxDuration=duration(limit.seconds), endTime=limit.until)


def duration(seconds):
    return None if seconds is None else f"{seconds}s"


def ml_document(study):
    hyperparameters = drop_unset(
        goal=study.metrics[0].goal.value,
        hyperparameterMetricTag=study.metrics[0].metric_id,
        params=[ml_parameter_json(parameter) for parameter in study.parameters],
        maxTrials=study.trial_count_max,
        maxParallelTrials=study.trial_count_parallel,
        maxFailedTrials=study.trial_count_failed_max,
        algorithm=ALGORITHM.get(study.algorithm, study.algorithm.value),
        enableTrialEarlyStopping=study.stopping is not None,
        resumePreviousJobId=study.resume_previous_job_id,
    )
    return {"trainingInput": {"hyperparameters": hyperparameters}}


def ml_parameter_json(parameter):
    bounds = parameter.bounds or (None, None)
    is_list = parameter.kind is ParameterKind.DISCRETE
    is_words = parameter.kind is ParameterKind.CATEGORICAL
    return drop_unset(
        parameterName=parameter.parameter_id,
        type=parameter.kind.value,
        minValue=bounds[0],
        maxValue=bounds[1],
        discreteValues=list(parameter.values) if is_list else None,
        categoricalValues=list(parameter.values) if is_words else None,
        scaleType=SCALE.get(parameter.scale, "NONE"),
    )


def snaked(value):
    """The same document as a client with snake_case names writes it."""
    if isinstance(value, dict):
        return {snake(key): snaked(item) for key, item in value.items()}
    return [snaked(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=150, deadline=None)
@given(study=VERTEX)
def test_a_vertex_study_is_read_as_it_was_meant(study):
    document = vertex_document(study)
    for written in (document, snaked(document)):
        parsed = parse(json.loads(json.dumps(written)))
        assert parsed.violations == ()
        assert parsed.spec.study == study


@settings(max_examples=150, deadline=None)
@given(study=ML)
def test_an_ml_study_is_read_as_it_was_meant(study):
    document = ml_document(study)
    for written in (document, snaked(document)):
        parsed = parse(json.loads(json.dumps(written)))
        assert parsed.violations == ()
        assert parsed.spec.study == study


@settings(max_examples=60, deadline=None)
@given(study=VERTEX)
def test_a_vertex_study_is_the_same_over_grpc(study):
    """Zeros that protobuf leaves out mean what they mean where they are written."""
    from google.protobuf import json_format  # noqa: PLC0415  # slow to import

    message = message_class("google.cloud.aiplatform.v1.HyperparameterTuningJob")()
    written = {**vertex_document(study), "maxTrialCount": 3, "parallelTrialCount": 2}
    json_format.ParseDict(written, message)
    parsed = parse({"trialJobSpec": {}, **json_format.MessageToDict(message)})
    assert parsed.violations == ()
    assert without_zeros(parsed.spec.study) == without_zeros(parse(written).spec.study)


def without_zeros(study):
    """Two bounds of 0 are none, and the convex rule's counts of 0 are its own."""
    parameters = tuple(map(_without_zeros, study.parameters))
    rule = study.stopping
    if isinstance(rule, ConvexRule):
        rule = replace(
            rule,
            step_count_min=rule.step_count_min or None,
            measurement_count_min=rule.measurement_count_min or None,
        )
    return replace(study, parameters=parameters, stopping=rule)


def _without_zeros(parameter):
    conditions = tuple(
        replace(condition, parameter=_without_zeros(condition.parameter))
        for condition in parameter.conditions
    )
    bounds = parameter.bounds if any(parameter.bounds or ()) else None
    return replace(parameter, bounds=bounds, conditions=conditions)


STUDY_MESSAGES = {
    "aiplatform_v1": ("StudySpec", "StudyTimeConstraint"),
    "ml_v1": ("HyperparameterSpec", "ParameterSpec"),
}
#: Documents that have every field of a study, one of each group of alternatives at a time.
WHOLE_DOCUMENTS = [
    vertex_document(
        StudySpec(
            metrics=(Metric(metric_id="m", safety=Safety(threshold=1.0)),),
            parameters=tuple(
                ParameterSpec(
                    parameter_id="p",
                    kind=kind,
                    bounds=(1.0, 2.0),
                    values=(1.0,),
                    scale=Scale.LOG,
                    default=1.0,
                    conditions=tuple(
                        Condition(
                            parent_values=values,
                            parameter=ParameterSpec(
                                parameter_id="c", kind=ParameterKind.DOUBLE, bounds=(1.0, 2.0)
                            ),
                        )
                        for values in (("a",), (1.0,), (0.5,))
                    ),
                )
                for kind in ParameterKind
            ),
            stopping=rule,
            ending=EndingRules(
                runtime_min=TimeLimit(seconds=1.0),
                runtime_max=TimeLimit(until="2030-01-01T00:00:00Z"),
                trial_count_min=1,
                trial_count_max=1,
                trials_without_progress_max=1,
                seconds_without_progress_max=1.0,
            ),
        )
    )
    for rule in (
        MedianRule(),
        DecayCurveRule(),
        ConvexRule(
            step_count_max=1,
            step_count_min=1,
            measurement_count_min=1,
            learning_rate_parameter="p",
        ),
    )
] + [
    ml_document(
        StudySpec(
            metrics=(Metric(metric_id="m"),),
            parameters=tuple(
                ParameterSpec(parameter_id="p", kind=kind, bounds=(1.0, 2.0), values=(1.0,))
                for kind in ParameterKind
            ),
            resume_previous_job_id="j",
        )
    )
]


def keys_of(value):
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from keys_of(item)


def test_the_documents_above_have_every_field_of_a_study_that_there_is():
    """A field that comes with a new definition must be written above, and so be read."""
    written = {key for document in WHOLE_DOCUMENTS for key in keys_of(document)}
    defined = {
        field.json_name
        for dialect, names in STUDY_MESSAGES.items()
        for message in table(dialect).messages.values()
        if message.name.startswith(names)
        for field in message.fields
    }
    assert defined - written == set()


@pytest.mark.parametrize("name", ["", None])
def test_an_ml_study_that_names_no_metric_has_the_services(name):
    document = {"trainingInput": {"hyperparameters": {"hyperparameterMetricTag": name}}}
    [metric] = parse(document).spec.study.metrics
    assert metric.metric_id == "training/hptuning/metric"


def test_an_empty_message_of_a_stopping_rule_is_that_rule():
    for name, rule in (
        ("medianAutomatedStoppingSpec", MedianRule()),
        ("decayCurveStoppingSpec", DecayCurveRule()),
        ("convexAutomatedStoppingSpec", ConvexRule()),
    ):
        assert parse({"studySpec": {name: {}}}).spec.study.stopping == rule
    assert parse({"studySpec": {}}).spec.study.stopping is None


def test_two_stopping_rules_exclude_each_other():
    both = {"medianAutomatedStoppingSpec": {}, "convexAutomatedStoppingSpec": {}}
    [violation] = parse({"studySpec": both}).violations
    assert (violation.field, violation.rule) == ("studySpec", "exactly-one-of")


def test_an_algorithm_that_is_not_here_is_refused_by_name():
    hyperparameters = {"algorithm": "POPULATION_BASED_TRAINING"}
    [violation] = parse({"trainingInput": {"hyperparameters": hyperparameters}}).violations
    assert violation.field == "trainingInput.hyperparameters.algorithm"
    assert "POPULATION_BASED_TRAINING" in violation.message


@pytest.mark.parametrize("name", ["transferLearningConfig", "studyStoppingConfigs", "x"])
def test_a_field_that_is_not_known_is_refused_by_name(name):
    [violation] = parse({"studySpec": {name: {}}}).violations
    assert (violation.field, violation.rule) == (f"studySpec.{name}", "unknown-field")


@pytest.mark.parametrize(
    ("kind", "name", "value", "is_refused"),
    [
        ("DOUBLE", "categoricalValues", ["a"], True),
        ("INTEGER", "discreteValues", [1], True),
        ("CATEGORICAL", "minValue", 1, True),
        ("CATEGORICAL", "discreteValues", [1], True),
        ("DISCRETE", "categoricalValues", ["a"], True),
        ("DISCRETE", "maxValue", 1, False),
        ("CATEGORICAL", "minValue", 0, False),
        ("DOUBLE", "categoricalValues", [], False),
    ],
)
def test_what_a_type_of_parameter_does_not_have_is_refused_by_name(kind, name, value, is_refused):
    params = [{"parameter_name": "p", "type": kind, snake(name): value}]
    parsed = parse({"training_input": {"hyperparameters": {"params": params}}})
    field = f"training_input.hyperparameters.params[0].{snake(name)}"
    expected = [(field, "study-values")] if is_refused else []
    assert [(v.field, v.rule) for v in parsed.violations] == expected
    assert parsed.spec.study.is_whole


def test_values_that_cannot_be_read_are_not_missing_too():
    job = {"studySpec": {"parameters": [{"parameterId": "a", "discreteValueSpec": [1, 2]}]}}
    fields = [str(v.field) for v in aiplatform_v1_parse.tuning_job(job).violations]
    assert fields == ["studySpec.parameters[0].discreteValueSpec"]
