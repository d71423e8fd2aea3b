"""A study as a table for other programs: a line a trial."""

import csv
import io
from collections.abc import Iterator

from trainshed.model.study import parameters_of
from trainshed.model.trials import TrialRecord, Value, text_of
from trainshed.wire.times import rfc3339
from trainshed.workbench.study_view import StudyView


def csv_text(view: StudyView) -> str:
    """The trials as CSV (RFC 4180).

    Columns of parameters begin with ``parameters.`` and those of final values with ``metrics.``,
    so that no name hides another.  Numbers are written as programs have them, and can be read back
    exactly.
    """
    parameters, metrics = parameter_names(view), [each.metric_id for each in view.study.metrics]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(
        (
            *("trial", "state", "stopped_early"),
            *(f"parameters.{name}" for name in parameters),
            *(f"metrics.{name}" for name in metrics),
            *("step", "start_time", "end_time", "infeasible_reason"),
        )
    )
    for trial in view.trials:
        writer.writerow(_row(trial, parameters, metrics))
    return text.getvalue()


def parameter_names(view: StudyView) -> list[str]:
    """The study's parameters in its order, behind them those that only trials have."""
    names = [parameter.parameter_id for parameter in parameters_of(view.study)]
    names += [name for trial in view.trials for name, _ in trial.values]
    return list(dict.fromkeys(names))


def _row(
    trial: TrialRecord, parameters: list[str], metrics: list[str]
) -> Iterator[int | str | None]:
    values = dict(trial.values)
    yield trial.number
    yield trial.state.value
    yield "true" if trial.stopped_early else "false"
    yield from (_exact(values.get(name)) for name in parameters)
    yield from (_exact(trial.final.value(name) if trial.final else None) for name in metrics)
    yield trial.final.step if trial.final else None
    yield rfc3339(trial.start_time)
    yield rfc3339(trial.end_time)
    yield trial.infeasible_reason


def _exact(value: Value | None) -> str | None:
    return None if value is None else text_of(value)
