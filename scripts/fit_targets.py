"""Writes what published trainings took to target: benchmarks/planning/targets_fit.toml.

Usage: ``python scripts/fit_targets.py`` (seconds), from ``benchmarks/scaling/mlperf-*.toml``.
"""

import datetime as dt
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
FILE = ROOT / "benchmarks/planning/targets_fit.toml"

HEAD = """\
# Written by scripts/fit_targets.py from benchmarks/scaling/mlperf-*.toml: do not edit.
# E(B) = samples_at_least (1 + B / critical_batch), in samples, or in epochs where unit says so.
# error: median share by which the batches that the fit saw lie beside it.

schema = 1
date = "{date}"
"""


def main() -> None:
    """Fit and write."""
    FILE.write_text(HEAD.format(date=dt.datetime.now(dt.UTC).date()) + workloads())


def workloads() -> str:
    """A table for each workload with three batches or more."""
    return "".join(_rows())


def _rows() -> Iterator[str]:
    from benchmarks.planning.frame import PUBLISHED, tables_of  # noqa: PLC0415 - below the path
    from benchmarks.planning.goals_targets import group_by_recipe  # noqa: PLC0415
    from benchmarks.planning.targets import fit_recipe  # noqa: PLC0415

    for name, runs in group_by_recipe(tables_of(PUBLISHED).results).items():
        if len({run.batch for run in runs}) >= 3:  # noqa: PLR2004 - fewer are no curve
            recipe = fit_recipe(runs)
            errors = [abs(recipe.amount(run.batch) / run.amount - 1) for run in runs]
            unit = "samples" if max(run.amount for run in runs) > 500 else "epochs"  # noqa: PLR2004
            yield (
                f'\n[[workload]]\nname = "{name}"\nunit = "{unit}"\n'
                f"samples_at_least = {recipe.samples_at_least:.4g}\n"
                f"critical_batch = {recipe.critical_batch:.4g}\n"
                f"error = {statistics.median(errors):.3f}\n"
            )


if __name__ == "__main__":
    main()
