"""Where a report goes: a page and a CSV file beside each other."""

import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from trainshed.model.faults import UsageFault
from trainshed.workbench.study_report.csv_file import csv_text
from trainshed.workbench.study_view import StudyView

_PAGES: Final = frozenset({".html", ".htm"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The two files of a report."""

    page: Path
    table: Path


def files_of(out: str | None, view: StudyView) -> ReportFiles:
    """What ``--out`` means: a page by its name, else a folder; None is the current folder.

    A folder may be a new one.  Raises UsageFault where it would be in a folder that is not there:
    that is a slip of the pen.
    """
    place = Path(out or ".")
    if not place.parent.is_dir():
        raise UsageFault(f"--out {out}: there is no folder {place.parent}; make it first")
    if place.suffix.lower() not in _PAGES or place.is_dir():
        stem = re.sub(r"[^\w.-]", "_", view.name.rpartition("/")[2]) or "study"
        place = place / f"study-{stem}.html"
    return ReportFiles(page=place, table=place.with_suffix(".csv"))


def write(view: StudyView, files: ReportFiles, now: datetime) -> None:
    """Write the report.  Raises OSError, and ImportError where optuna or plotly is missing."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # noqa: PLC0415  # heavy, and an extra

    from trainshed.workbench.study_report.figures import plots  # noqa: PLC0415  # the same
    from trainshed.workbench.study_report.page import page  # noqa: PLC0415  # the same

    text = page(view, plots(view), get_plotlyjs(), now)
    files.page.parent.mkdir(exist_ok=True)
    for path, content in ((files.page, text), (files.table, csv_text(view))):
        _put(path, content)


def _put(path: Path, content: str) -> None:
    """Replace a file at once: a browser may be showing it."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(content, "utf-8", errors="backslashreplace", newline="")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
