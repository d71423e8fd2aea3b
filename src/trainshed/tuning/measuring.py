"""Turns the reports of a trial's program into measurements, and selects the final one.

A program reports (metric, value, step); the reports of one step become one measurement, in the
API's order (docs/sources/vertex.md 8).  NaN and infinity are never in a measurement.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trainshed.model.attempt import Report
from trainshed.model.study import Metric, Selection, StudySpec
from trainshed.model.trials import Measurement, TrialRecord
from trainshed.tuning.ranking import objectives, upward

#: The least time between measurements of one step, in seconds, if the clock has none.
TICK_S: Final = 1e-6


def measurements(reports: Sequence[Report], metric_ids: Collection[str]) -> tuple[Measurement, ...]:
    """Return the measurements of a trial, strictly ascending by (step, elapsed time).

    ``reports`` are in order of arrival.  Different metrics of one step are one measurement; the
    same metric again, with the step unchanged, begins another one.  If a program never gives a
    step, all its measurements are at step 0 and differ by time.

    A metric whose step has gone back comes from a program that was restarted.  From then on a later
    report of a step replaces the earlier ones of that step, because it belongs to the restarted
    model.  Steps that are not reported again stay, because a program may report one metric step by
    step, and then another, and because those values were correct when they were measured.
    """
    by_step = _PointsByStep()
    for report in reports:
        if report.tag in metric_ids:
            by_step.add(report)
    return by_step.measurements()


def final(
    study: StudySpec,
    trial_measurements: Sequence[Measurement],
    reports: Sequence[Report],
    search_note: str,
) -> Measurement | str:
    """Return the final measurement, with every metric of the study; or why there is none.

    LAST has the last value of each metric, at the step of the first objective.  BEST is the
    measurement with the best first objective, among those with all metrics if there are any;
    missing metrics come from the nearest one before it, or else after it.  ``search_note`` is the
    engine's note on the places where it looked for reports (``engines.base.Measured``).
    """
    reason = _missing(study, reports, search_note) or _not_finite(
        study, trial_measurements, reports
    )
    if reason:
        return reason
    first = objectives(study)[0]
    if study.selection is Selection.LAST:
        return _last(study, first, trial_measurements, reports)
    return _best(study, first, trial_measurements)


def measured(
    study: StudySpec, trial: TrialRecord, reports: Sequence[Report]
) -> tuple[Measurement, ...]:
    """Return the measurements of the reports, then a stopping rule's prediction."""
    observations = measurements(reports, [metric.metric_id for metric in study.metrics])
    predicted = trial.final if trial.stopped_early else None
    if predicted is None or predicted in observations:
        return observations
    return (*observations, predicted)


@dataclass(slots=True)
class _Point:
    """An incomplete measurement: for each metric the pass of its report, its value and time."""

    values: dict[str, tuple[int, float, float]] = field(default_factory=dict)

    @property
    def elapsed_s(self) -> float:
        return max((elapsed_s for _, _, elapsed_s in self.values.values()), default=0.0)


@dataclass(slots=True)
class _PointsByStep:
    """All points of a trial by step, and for each metric how often its step went back."""

    points: dict[int, list[_Point]] = field(default_factory=lambda: defaultdict(list))
    passes: Counter[str] = field(default_factory=Counter)
    latest: dict[str, Report] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        """Add one report; one that is not finite still shows the program's step."""
        before = self.latest.get(report.tag, report)
        self.latest[report.tag] = report
        self.passes[report.tag] += report.step < before.step
        points = self.points[report.step]
        # a time that went back is a restart too, of a program that never reports a step
        if self.passes[report.tag] or report.elapsed_s < before.elapsed_s:
            _forget(points, report, self.passes[report.tag])
        if math.isfinite(report.value):
            self._enter(points, report)

    def _enter(self, points: list[_Point], report: Report) -> None:
        if not points or report.tag in points[-1].values:
            points.append(_Point())
        value = (self.passes[report.tag], report.value, report.elapsed_s)
        points[-1].values[report.tag] = value

    def measurements(self) -> tuple[Measurement, ...]:
        """Return all points as measurements, in order."""
        measurements: list[Measurement] = []
        for step in sorted(self.points):
            before_s = -math.inf
            for point in self.points[step]:
                before_s = max(point.elapsed_s, before_s + TICK_S)
                metrics = tuple((tag, value) for tag, (_, value, _) in sorted(point.values.items()))
                measurements.append(Measurement(step=step, elapsed_s=before_s, metrics=metrics))
        return tuple(measurements)


def _forget(points: list[_Point], report: Report, current_pass: int) -> None:
    """Remove the report's metric from points of an earlier pass or of a later time."""
    for point in points:
        pass_number, _, elapsed_s = point.values.get(
            report.tag, (current_pass, 0.0, report.elapsed_s)
        )
        if pass_number < current_pass or elapsed_s > report.elapsed_s:
            del point.values[report.tag]
    points[:] = [point for point in points if point.values]


def _missing(study: StudySpec, reports: Sequence[Report], failure: str) -> str | None:
    """Return the reason if metrics were never reported, else None."""
    counts = Counter(report.tag for report in reports)
    lacking = [metric for metric in study.metrics if metric.metric_id not in counts]
    if not lacking:
        return None
    names = " and ".join(_name_metric(metric) for metric in lacking)
    tags = ", ".join(f"{tag} ({count} times)" for tag, count in sorted(counts.items()))
    reported = f"it has reported {tags}" if tags else ""
    parts = [f"The trial ended without {names}", failure, reported, _NEXT]
    return "; ".join(part for part in parts if part)


#: The advice after the reason.
_NEXT: Final = (
    "have the program report it under this name, or give the study the name of a metric that the "
    "program reports"
)


def _name_metric(metric: Metric) -> str:
    return f"the {'safety ' if metric.safety else ''}metric {metric.metric_id!r}"


def _not_finite(
    study: StudySpec, trial_measurements: Sequence[Measurement], reports: Sequence[Report]
) -> str | None:
    """Return the reason if a metric has no finite value to select, else None."""
    last = {report.tag: report.value for report in reports}
    for name in (metric.metric_id for metric in study.metrics):
        if study.selection is Selection.LAST and not math.isfinite(last[name]):
            return f"The last {name} was {last[name]}"
        if all(measurement.value(name) is None for measurement in trial_measurements):
            return f"Every {name} was nan or infinite; the last was {last[name]}"
    return None


def _last(
    study: StudySpec,
    first: Metric,
    trial_measurements: Sequence[Measurement],
    reports: Sequence[Report],
) -> Measurement:
    values = {report.tag: report.value for report in reports}
    latest = next(report for report in reversed(reports) if report.tag == first.metric_id)
    target = (latest.step, latest.value)
    at = [
        measurement
        for measurement in trial_measurements
        if (measurement.step, measurement.value(first.metric_id)) == target
    ]
    return replace(at[-1], metrics=_in_order(study, values))


def _best(
    study: StudySpec, first: Metric, trial_measurements: Sequence[Measurement]
) -> Measurement:
    names = [metric.metric_id for metric in study.metrics]
    complete = [
        at
        for at, measurement in enumerate(trial_measurements)
        if all(measurement.value(n) is not None for n in names)
    ]
    candidates = complete or [
        at
        for at, measurement in enumerate(trial_measurements)
        if measurement.value(first.metric_id) is not None
    ]
    best_at = max(
        candidates,
        key=lambda at: upward(first.goal, _find_nearest(trial_measurements, at, first.metric_id)),
    )
    values = {name: _find_nearest(trial_measurements, best_at, name) for name in names}
    return replace(trial_measurements[best_at], metrics=_in_order(study, values))


def _find_nearest(trial_measurements: Sequence[Measurement], index: int, name: str) -> float:
    """Return a metric at a measurement, else the nearest before it, else the nearest after it."""
    ordered = (*trial_measurements[index::-1], *trial_measurements[index + 1 :])
    return next(value for measurement in ordered if (value := measurement.value(name)) is not None)


def _in_order(study: StudySpec, values: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple((metric.metric_id, values[metric.metric_id]) for metric in study.metrics)
