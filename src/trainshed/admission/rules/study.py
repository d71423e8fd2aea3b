"""Rules about a tuning study as a whole: metrics and their limits, trials, early stopping.

``parameters`` has the rules about parameters.  A study with a part that could not be read is not
checked: that part already has a violation, and the rest is not the study that the caller wrote.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from trainshed.admission.context import RuleContext
from trainshed.model.early_stopping import (
    ACCEPTED_RULES,
    STOPPING_LABEL,
    rule_of_label,
    stopping_with_labels,
)
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.roles import Dialect
from trainshed.model.study import (
    Algorithm,
    ConvexRule,
    Metric,
    ParameterKind,
    StudySpec,
    parameters_of,
)
from trainshed.model.study_places import StudyField, StudyPlace, placed
from trainshed.model.texts import join_or

#: Keys that every line of the metric file has.  A metric of that name would be lost, or would
#: replace the line's value (docs/sources/vertex.md 10.1).
TAKEN_METRICS: Final = ("trial", "timestamp", "global_step", "checkpoint_path")

#: The dialects' names for the counts of trials: all, at once, and those that may fail.
TRIAL_WORDS: Final[Mapping[Dialect, tuple[str, str, str]]] = {
    Dialect.ML_V1: ("maxTrials", "maxParallelTrials", "maxFailedTrials"),
    Dialect.AIPLATFORM_V1: ("maxTrialCount", "parallelTrialCount", "maxFailedTrialCount"),
}


def judged_study(context: RuleContext) -> StudySpec | None:
    """Return the study to check; None if there is none, or a part of it could not be read."""
    study = context.submitted_spec.study
    return study if study and study.is_whole else None


def study_has_metrics(context: RuleContext) -> Iterator[Violation]:
    """A study has metrics, with names that reports can contain (docs/sources/vertex.md 8, 10.1)."""
    study = judged_study(context)
    if study is None:
        return
    if not study.metrics:
        at = StudyPlace(StudyField.METRICS)
        yield broken_study("study-metrics", at, "a study needs a metric", "at least one metric")
    metric_ids: set[str] = set()
    for index, metric in enumerate(study.metrics):
        at = StudyPlace(StudyField.METRIC_ID, (index,))
        yield from _check_metric(metric, at, context.submitted_spec.dialect)
        if metric.metric_id in metric_ids:
            message = f"metric {metric.metric_id!r} is given twice"
            yield broken_study("study-metrics", at, message, "each metric once")
        metric_ids.add(metric.metric_id)


def _check_metric(metric: Metric, at: StudyPlace, dialect: Dialect) -> Iterator[Violation]:
    name = metric.metric_id
    if not name:
        message = "a metric needs a name"
        yield broken_study("study-metrics", at, message, "accuracy, for example")
    elif dialect is Dialect.AIPLATFORM_V1 and any(letter.isspace() for letter in name):
        message = f"metric {name!r}: the name of a metric has no blanks"
        yield broken_study("study-metrics", at, message, "a name without blanks")
    elif name in TAKEN_METRICS:
        message = f"metric {name!r}: reports of metrics have a key of that name already"
        accepted = f"any name but {', '.join(TAKEN_METRICS)}"
        yield broken_study("study-metrics", at, message, accepted)


def study_algorithm_fits(context: RuleContext) -> Iterator[Violation]:
    """A grid has no DOUBLE parameters (docs/sources/vertex.md 7.1, 8)."""
    study = judged_study(context)
    if study is None or study.algorithm is not Algorithm.GRID_SEARCH:
        return
    for at, parameter in placed(study.parameters):
        if parameter.kind is ParameterKind.DOUBLE:
            message = f"parameter {parameter.parameter_id}: GRID_SEARCH takes no DOUBLE parameter"
            accepted = "INTEGER, CATEGORICAL or DISCRETE, or another algorithm"
            place = StudyPlace(StudyField.KIND, at)
            yield broken_study("study-algorithm", place, message, accepted)


def study_trials_are_possible(context: RuleContext) -> Iterator[Violation]:
    """Counts of trials are at least 1; the parallel count is at most the total."""
    study = judged_study(context)
    if study is None:
        return
    most, at_once, failed = TRIAL_WORDS[context.submitted_spec.dialect]
    total, parallel = study.trial_count_max, study.trial_count_parallel
    total_field, parallel_field = StudyField.TRIALS_MAX, StudyField.TRIALS_PARALLEL
    for field, name, count in ((total_field, most, total), (parallel_field, at_once, parallel)):
        if count < 1:
            message = f"{name} must be at least 1, got {count}"
            yield broken_study("study-trials", StudyPlace(field), message, "a whole number from 1")
    if parallel > total >= 1:
        message = f"{at_once} is {parallel}, which is more than {most}, {total}"
        accepted = f"at most {total}, or a larger {most}"
        yield broken_study("study-trials", StudyPlace(parallel_field), message, accepted)
    if study.trial_count_failed_max < 0:
        message = f"{failed} must be at least 0, got {study.trial_count_failed_max}"
        accepted = "a whole number; 0 leaves it to the service"
        yield broken_study("study-trials", StudyPlace(StudyField.TRIALS_FAILED), message, accepted)


def objective_count(study: StudySpec) -> int:
    """Return the number of objectives; a safety metric is a limit, not an objective."""
    return sum(metric.safety is None for metric in study.metrics)


def broken_study(rule: str, place: StudyPlace, message: str, accepted: str) -> Violation:
    """Return a violation at a place of the study."""
    path = FieldPath(Field.STUDY, place=place)
    return Violation(field=path, rule=rule, message=message, accepted=accepted)


def study_safety_is_possible(context: RuleContext) -> Iterator[Violation]:
    """Limits and shares of safe trials are numbers, and at least one metric is an objective."""
    study = judged_study(context)
    if study is None:
        return
    for index, metric in enumerate(study.metrics):
        yield from _check_limits(metric, index)
    if study.metrics and not objective_count(study):
        message = "every metric is a safety metric, so nothing is left to improve"
        accepted = "at least one metric without safetyConfig"
        yield broken_study("study-safety", StudyPlace(StudyField.METRICS), message, accepted)


def _check_limits(metric: Metric, index: int) -> Iterator[Violation]:
    safety, name = metric.safety, metric.metric_id
    if safety is None:
        return
    if not math.isfinite(safety.threshold):
        at = StudyPlace(StudyField.SAFETY_THRESHOLD, (index,))
        message = f"metric {name!r}: the safety threshold is {safety.threshold}"
        yield broken_study("study-safety", at, message, "a finite number")
    if not 0 <= safety.fraction_min <= 1:
        at = StudyPlace(StudyField.SAFETY_FRACTION, (index,))
        message = f"metric {name!r}: {safety.fraction_min:g} is not a share of the trials"
        yield broken_study("study-safety", at, message, "a number from 0 to 1")


def study_stopping_fits(context: RuleContext) -> Iterator[Violation]:
    """Early stopping needs one objective, and a convex rule that can take effect."""
    study = judged_study(context)
    if study is None:
        return
    labels = context.submitted_spec.labels
    count = objective_count(study)
    if count > 1 and stopping_with_labels(study, labels) is not None:
        message = f"trials are stopped early by one metric, and the study has {count} objectives"
        accepted = "one metric, or no early stopping"
        place = StudyPlace(StudyField.STOPPING)
        field = FieldPath(Field.STUDY, place=place) if study.stopping else FieldPath(Field.LABELS)
        yield Violation(field=field, rule="study-stopping", message=message, accepted=accepted)
    if isinstance(study.stopping, ConvexRule):
        yield from _check_convex(study.stopping)
        yield from _check_learning_rate(study, study.stopping.learning_rate_parameter)


def study_stopping_label_fits(context: RuleContext) -> Iterator[Violation]:
    """The label names a rule of early stopping, and no other than the study does.

    ``enableTrialEarlyStopping`` of ml v1 names no rule, so that every label fits it.
    """
    study, text = judged_study(context), context.submitted_spec.labels.get(STOPPING_LABEL)
    if study is None or text is None:
        return
    rule, own = rule_of_label(text), study.stopping
    names_rules = context.submitted_spec.dialect is Dialect.AIPLATFORM_V1
    if rule is None:
        message = f"the label {STOPPING_LABEL} must be a rule of early stopping, got {text!r}"
        yield _broken_label(message, ACCEPTED_RULES)
    elif names_rules and own is not None and type(rule) is not type(own):
        word = own.rule.replace("_", "-")
        message = f"the label {STOPPING_LABEL} is {text}, and the study has the rule {word}"
        yield _broken_label(message, f"{word}, or a study without a rule")


def _broken_label(message: str, accepted: str) -> Violation:
    path = FieldPath(Field.LABELS)
    return Violation(field=path, rule="early-stopping-label", message=message, accepted=accepted)


def _check_convex(rule: ConvexRule) -> Iterator[Violation]:
    counts = (
        (StudyField.STEPS_MAX, "maxStepCount", rule.step_count_max),
        (StudyField.STEPS_MIN, "minStepCount", rule.step_count_min),
        (StudyField.MEASUREMENTS_MIN, "minMeasurementCount", rule.measurement_count_min),
    )
    for field, name, count in counts:
        if count is not None and count < 0:
            message = f"{name} must be at least 0, got {count}"
            yield broken_study("study-stopping", StudyPlace(field), message, "a whole number")
    most, least = rule.step_count_max, rule.step_count_min
    if most is not None and least is not None and least > most >= 0:
        message = f"minStepCount is {least}, which is more than maxStepCount, {most}"
        at = StudyPlace(StudyField.STEPS_MIN)
        yield broken_study("study-stopping", at, message, f"at most {most}")


def _check_learning_rate(study: StudySpec, name: str | None) -> Iterator[Violation]:
    parameter_ids = [parameter.parameter_id for parameter in parameters_of(study)]
    if name is not None and name not in parameter_ids:
        at = StudyPlace(StudyField.LEARNING_RATE)
        message = f"the study has no parameter {name}, whose value would be the learning rate"
        yield broken_study(
            "study-stopping", at, message, join_or(parameter_ids) or "a parameter's id"
        )
