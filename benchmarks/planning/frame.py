"""The parts of the planner's goals: rows, errors, values beside limits and baselines."""

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.harness import ROOT, Goal, at_most, tell
from trainshed.planning.scaling.tables import Tables, read

PUBLISHED: Final = ROOT / "benchmarks" / "scaling"
#: How much worse rows may be that were kept elsewhere (docs/sources/planner.md 11).
SLACK: Final = 1.25

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
NO_LIMITS: Final = (None, None)


@dataclass(frozen=True, kw_only=True)
class Miss:
    """One prediction that was wrong, for the list of the worst."""

    row: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """The difference as a share of the measurement."""
        return abs(self.predicted / self.measured - 1)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the table: values of ours, and the same of each baseline."""

    name: str
    count: int
    goals: tuple[Goal, ...]
    baselines: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a goal's function."""

    lines: Sequence[Line]
    misses: Sequence[Miss] = ()
    """All predictions of the goal's own row; the worst are printed."""


#: Predicts rows from ours, of which it leaves out what it predicts; both by table.
Measure = Callable[[Rows, Rows], Outcome]


def tables_of(folder: Path) -> Tables:
    """Read the curves of a folder, with our cards of models and systems where it has none."""
    files = (PUBLISHED / "models.toml", PUBLISHED / "systems.toml", *sorted(folder.glob("*.toml")))
    tables = read({str(path): path.read_text() for path in files})
    for fault in tables.faults:
        tell(f"left out: {fault}")
    return tables


def rows_of(folder: Path) -> Rows:
    """Read all other tables of a folder, such as ``result`` and ``pair`` (its README)."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for path in sorted(folder.glob("*.toml")):
        for name, table in tomllib.loads(path.read_text()).items():
            rows[name] += table
    return rows


def spread(errors: Iterable[float]) -> tuple[float, float]:
    """Median and 90th percentile, in per cent; NaN of nothing."""
    values = [100 * error for error in errors] or [float("nan")]
    median, high = np.quantile(values, (0.5, 0.9)).tolist()
    return median, high


def errors_line(
    name: str,
    errors: Sequence[float],
    limits: tuple[float | None, float | None] = NO_LIMITS,
    baselines: Mapping[str, Sequence[float]] | None = None,
) -> Line:
    """Median and 90th percentile of errors beside their limits, and the same of the baselines."""
    median, high = spread(errors)
    return Line(
        name=name,
        count=len(errors),
        goals=(at_most("median", median, limits[0], "%"), at_most("p90", high, limits[1], "%")),
        baselines={peer: spread(errors) for peer, errors in (baselines or {}).items()},
    )
