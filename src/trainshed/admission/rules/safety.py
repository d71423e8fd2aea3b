"""Rules about safety metrics: limits that a trial must keep (R19; contracts/vertex-sdk.md 8)."""

import math
from collections.abc import Iterator

from trainshed.admission.context import RuleContext
from trainshed.admission.rules.study import broken_study, judged_study, objective_count
from trainshed.model.faults import Violation
from trainshed.model.study import Metric
from trainshed.model.study_places import StudyField, StudyPlace


def study_safety_is_possible(context: RuleContext) -> Iterator[Violation]:
    """A limit is a number, the share of safe trials is one, and one metric is no limit."""
    study = judged_study(context)
    if study is None:
        return
    for index, metric in enumerate(study.metrics):
        yield from _limits(metric, index)
    if study.metrics and not objective_count(study):
        message = "every metric is a safety metric, so nothing is left to improve"
        accepted = "at least one metric without safetyConfig"
        yield broken_study("study-safety", StudyPlace(StudyField.METRICS), message, accepted)


def _limits(metric: Metric, index: int) -> Iterator[Violation]:
    safety, name = metric.safety, metric.metric_id
    if safety is None:
        return
    if not math.isfinite(safety.threshold):
        at = StudyPlace(StudyField.SAFETY_THRESHOLD, (index,))
        message = f"metric {name!r}: the safety threshold is {safety.threshold}"
        yield broken_study("study-safety", at, message, "a finite number")
    if not 0 <= safety.fraction_min <= 1:
        at = StudyPlace(StudyField.SAFETY_FRACTION, (index,))
        message = f"metric {name!r}: {safety.fraction_min:g} is no share of the trials"
        yield broken_study("study-safety", at, message, "a number from 0 to 1")
