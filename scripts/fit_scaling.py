"""Fits the planner's defaults to ``benchmarks/scaling``: ``planning/data/scaling_fit.toml``.

Usage: ``OMP_NUM_THREADS=1 python scripts/fit_scaling.py`` (about two minutes): one fit of all
curves, and one with each group of systems left out, for the errors that intervals are made of.
"""

import datetime as dt
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
FILE = ROOT / "src/trainshed/planning/data/scaling_fit.toml"

HEAD = """\
# Written by scripts/fit_scaling.py from benchmarks/scaling/: do not edit.
# What the names mean: planning/scaling/rates.py, fitting.py and reach.py.

schema = 1
date = "{date}"
"""


def main() -> None:
    """Fit and write."""
    from planning_fit import Search, as_tables  # noqa: PLC0415 - below the path
    from planning_questions import questions  # noqa: PLC0415
    from planning_rows import curves  # noqa: PLC0415

    rows = curves()
    tables = as_tables(Search(rows, questions(rows)).run())
    FILE.write_text(text(tables, dt.datetime.now(dt.UTC).date()))


def text(tables: dict[str, dict[str, float]], date: dt.date) -> str:
    """The file."""
    lines = [HEAD.format(date=date.isoformat())]
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{name} = {value:.4g}" for name, value in values.items()), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
