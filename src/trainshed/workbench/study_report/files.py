"""Names the files of a report: a page and a CSV file in the same folder."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from trainshed.model.csv_text import csv_text
from trainshed.model.faults import UsageFault
from trainshed.model.trials import TrialRecord, Value, text_of
from trainshed.tuning.limits import broken_limits
from trainshed.wire.times import rfc3339
from trainshed.workbench.study_view import StudyView, list_parameter_names

_PAGES: Final = frozenset({".html", ".htm"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The two files of a report."""

    page: Path
    table: Path


def files_of(out: str | None, view: StudyView) -> ReportFiles:
    """Resolve ``--out``: a page by its name, else a folder; the current folder if None.

    The folder need not exist.  Raises UsageFault if its parent does not exist: that is probably a
    typing error.
    """
    path = Path(out or ".")
    if not path.parent.is_dir():
        raise UsageFault(f"--out {out}: there is no folder {path.parent}; make it first")
    if path.suffix.lower() not in _PAGES or path.is_dir():
        stem = re.sub(r"[^\w.-]", "_", view.name.rpartition("/")[2]) or "study"
        path = path / f"study-{stem}.html"
    return ReportFiles(page=path, table=path.with_suffix(".csv"))


def write(view: StudyView, files: ReportFiles, now: datetime) -> None:
    """Write the report.  Raises OSError, and ImportError if optuna or plotly is missing."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # noqa: PLC0415  # heavy, and an extra

    from trainshed.workbench.study_report.figures import plots  # noqa: PLC0415  # the same
    from trainshed.workbench.study_report.page import page  # noqa: PLC0415  # the same

    text = page(view, plots(view), get_plotlyjs(), now)
    files.page.parent.mkdir(exist_ok=True)
    for path, content in ((files.page, text), (files.table, trials_csv(view))):
        _put(path, content)


def _put(path: Path, content: str) -> None:
    """Replace a file in one step: a browser may be reading it."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(content, "utf-8", errors="backslashreplace", newline="")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def trials_csv(view: StudyView) -> str:
    """Return the trials as CSV (RFC 4180).

    Columns of parameters begin with ``parameters.`` and those of final values with ``metrics.``,
    so that equal names stay apart.  Numbers have all their digits: a program reads back the same
    values.
    """
    parameters, metrics = (
        list_parameter_names(view),
        [metric.metric_id for metric in view.study.metrics],
    )
    heading = (
        *("trial", "state", "stopped_early"),
        *(f"parameters.{name}" for name in parameters),
        *(f"metrics.{name}" for name in metrics),
        *("step", "start_time", "end_time", "infeasible_reason"),
        *("best", "broken_limits", "origin"),
    )
    leaders = {trial.number for trial in view.leaders}
    rows = (
        (*_row(trial, parameters, metrics), *_judgement(view, trial, leaders))
        for trial in view.trials
    )
    return csv_text([heading, *rows], "\r\n")


def _row(
    trial: TrialRecord, parameters: list[str], metrics: list[str]
) -> Iterator[int | str | None]:
    values = dict(trial.values)
    yield trial.number
    yield trial.state.value
    yield _word(trial.stopped_early)
    yield from (_exact(values.get(name)) for name in parameters)
    yield from (_exact(trial.final.value(name) if trial.final else None) for name in metrics)
    yield trial.final.step if trial.final else None
    yield rfc3339(trial.start_time)
    yield rfc3339(trial.end_time)
    yield trial.infeasible_reason


def _judgement(view: StudyView, trial: TrialRecord, leaders: set[int]) -> Iterator[str]:
    yield _word(trial.number in leaders)
    yield ", ".join(limit.reason for limit in broken_limits(view.study, trial))
    yield view.origins.get(trial.number, "")


def _word(flag: bool) -> str:  # noqa: FBT001 - the value itself
    return "true" if flag else "false"


def _exact(value: Value | None) -> str | None:
    return None if value is None else text_of(value)
