"""Rules about stopping trials early (R19; contracts/vertex-sdk.md 8)."""

from collections.abc import Iterator

from trainshed.admission.context import RuleContext, listing
from trainshed.admission.rules.study import broken_study, judged_study, objective_count
from trainshed.model.faults import Violation
from trainshed.model.study import ConvexRule, StudySpec, parameters_of
from trainshed.model.study_places import StudyField, StudyPlace


def study_stopping_fits(context: RuleContext) -> Iterator[Violation]:
    """One objective, by which trials are compared, and a convex rule that can come to apply."""
    study = judged_study(context)
    if study is None or study.stopping is None:
        return
    count = objective_count(study)
    if count > 1:
        message = f"trials are stopped early by one metric, and the study has {count} objectives"
        accepted = "one metric, or no early stopping"
        yield broken_study("study-stopping", StudyPlace(StudyField.STOPPING), message, accepted)
    if isinstance(study.stopping, ConvexRule):
        yield from _convex(study.stopping)
        yield from _learning_rate(study, study.stopping.learning_rate_parameter)


def _convex(rule: ConvexRule) -> Iterator[Violation]:
    counts = (
        (StudyField.STEPS_MAX, "maxStepCount", rule.step_count_max),
        (StudyField.STEPS_MIN, "minStepCount", rule.step_count_min),
        (StudyField.MEASUREMENTS_MIN, "minMeasurementCount", rule.measurement_count_min),
    )
    for field, name, count in counts:
        if count is not None and count < 0:
            message = f"{name} is at least 0, not {count}"
            yield broken_study("study-stopping", StudyPlace(field), message, "a whole number")
    most, least = rule.step_count_max, rule.step_count_min
    if most is not None and least is not None and least > most >= 0:
        message = f"minStepCount is {least}, which is more than maxStepCount, {most}"
        at = StudyPlace(StudyField.STEPS_MIN)
        yield broken_study("study-stopping", at, message, f"at most {most}")


def _learning_rate(study: StudySpec, name: str | None) -> Iterator[Violation]:
    known = [parameter.parameter_id for parameter in parameters_of(study)]
    if name is not None and name not in known:
        at = StudyPlace(StudyField.LEARNING_RATE)
        message = f"the study has no parameter {name}, whose value would be the learning rate"
        yield broken_study("study-stopping", at, message, listing(known) or "a parameter's id")
