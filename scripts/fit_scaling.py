"""Fits the planner's defaults to ``benchmarks/scaling``: ``planning/data/scaling_fit.toml``.

Usage: ``OMP_NUM_THREADS=1 python scripts/fit_scaling.py`` (half a minute).
"""

import datetime as dt
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
FILE = ROOT / "src/trainshed/planning/data/scaling_fit.toml"

HEAD = """\
# Written by scripts/fit_scaling.py from benchmarks/scaling/: do not edit.
# What the names mean: planning/scaling/rates.py, fitting.py and reach.py.

schema = 1
date = "{date}"
"""


def main() -> None:
    """Fit and write."""
    from benchmarks.planning.fit import tables_of  # noqa: PLC0415 - below the path
    from benchmarks.planning.questions import questions  # noqa: PLC0415
    from benchmarks.planning.rows import curves  # noqa: PLC0415

    rows = curves()
    tables = tables_of(rows, questions(rows))
    FILE.write_text(text(tables, dt.datetime.now(dt.UTC).date()))


def text(tables: dict[str, dict[str, Any]], date: dt.date) -> str:
    """The file."""
    lines = [HEAD.format(date=date.isoformat())]
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{_key(name)} = {_value(values[name])}" for name in values), ""]
    return "\n".join(lines)


def _key(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _value(value: float | list[float]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:.4g}"


if __name__ == "__main__":
    main()
