"""Rules about a tuning study as a whole: its metrics, its algorithm and its trials (R19).

What one parameter must be is asked in ``parameters``.  A study of which a part could not be read
is not judged: that part has a violation of its own, and what it left behind is not the caller's.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from trainshed.admission.context import RuleContext
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.roles import Dialect
from trainshed.model.study import Algorithm, Metric, ParameterKind, StudySpec
from trainshed.model.study_places import StudyField, StudyPlace, placed

#: Keys of a line of the metric file: a metric of that name is lost, or replaces the line's own
#: value (contracts/vertex-sdk.md 10.1).
TAKEN_METRICS: Final = ("trial", "timestamp", "global_step", "checkpoint_path")

#: What the dialects call the counts of trials: all, at once, and those that may fail.
TRIAL_WORDS: Final[Mapping[Dialect, tuple[str, str, str]]] = {
    Dialect.ML_V1: ("maxTrials", "maxParallelTrials", "maxFailedTrials"),
    Dialect.AIPLATFORM_V1: ("maxTrialCount", "parallelTrialCount", "maxFailedTrialCount"),
}


def judged_study(context: RuleContext) -> StudySpec | None:
    """The study that the rules may judge; None where there is none, or not all of it."""
    study = context.asked.study
    return study if study and study.is_whole else None


def study_has_metrics(context: RuleContext) -> Iterator[Violation]:
    """At least one metric, each under a name that reaches us (contracts/vertex-sdk.md 8, 10.1)."""
    study = judged_study(context)
    if study is None:
        return
    if not study.metrics:
        at = StudyPlace(StudyField.METRICS)
        yield broken_study("study-metrics", at, "a study needs a metric", "at least one metric")
    names = [metric.metric_id for metric in study.metrics]
    for index, metric in enumerate(study.metrics):
        at = StudyPlace(StudyField.METRIC_ID, (index,))
        yield from _metric(metric, at, context.asked.dialect)
        if names.index(metric.metric_id) < index:
            message = f"metric {metric.metric_id!r} is given before"
            yield broken_study("study-metrics", at, message, "each metric once")


def _metric(metric: Metric, at: StudyPlace, dialect: Dialect) -> Iterator[Violation]:
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
    """A grid has no DOUBLE parameters (contracts/vertex-sdk.md 7.1, 8)."""
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
    """Counts of trials are from 1, and no more run at once than there are."""
    study = judged_study(context)
    if study is None:
        return
    most, at_once, failed = TRIAL_WORDS[context.asked.dialect]
    total, parallel = study.trial_count_max, study.trial_count_parallel
    all_of_them, together = StudyField.TRIALS_MAX, StudyField.TRIALS_PARALLEL
    for field, name, count in ((all_of_them, most, total), (together, at_once, parallel)):
        if count < 1:
            message = f"{name} is at least 1, not {count}"
            yield broken_study("study-trials", StudyPlace(field), message, "a whole number from 1")
    if parallel > total >= 1:
        message = f"{at_once} is {parallel}, which is more than {most}, {total}"
        accepted = f"at most {total}, or a larger {most}"
        yield broken_study("study-trials", StudyPlace(together), message, accepted)
    if study.trial_count_failed_max < 0:
        message = f"{failed} is at least 0, not {study.trial_count_failed_max}"
        accepted = "a whole number; 0 leaves it to the service"
        yield broken_study("study-trials", StudyPlace(StudyField.TRIALS_FAILED), message, accepted)


def objective_count(study: StudySpec) -> int:
    """How many metrics are to become better; a safety metric is a limit, and no objective."""
    return sum(metric.safety is None for metric in study.metrics)


def broken_study(rule: str, place: StudyPlace, message: str, accepted: str) -> Violation:
    """A violation at a place of the study."""
    path = FieldPath(Field.STUDY, place=place)
    return Violation(field=path, rule=rule, message=message, accepted=accepted)
