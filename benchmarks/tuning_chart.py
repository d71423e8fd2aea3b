"""The picture of how regret falls."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tuning_runs import Run, regrets


def draw(runs: Sequence[Run], image: Path) -> str:
    """Draw the curves; why they were not drawn, where they could not be."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # not everybody has it
    except ImportError:
        return "the picture: matplotlib is not installed"
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    modes = sorted({run.cell.parallel for run in runs})
    for axes, parallel in zip(figure.subplots(1, len(modes), squeeze=False)[0], modes, strict=True):
        _curves(axes, [run for run in runs if run.cell.parallel == parallel])
        axes.set_title("one trial at a time" if parallel == 1 else f"{parallel} trials in parallel")
    image.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(image, dpi=100)
    return ""


def _curves(axes: Any, runs: Sequence[Run]) -> None:
    """Median regret by trials, one line for each peer."""
    trials = len(runs[0].best)
    steps = range(5, trials + 1, 5)
    tables = [regrets(runs, step) for step in steps]
    for name in dict.fromkeys(run.peer for run in runs):
        medians = [np.median(list(table.by_peer[name].values())) for table in tables]
        axes.plot(steps, medians, label=name, linewidth=2.5 if name == "ours" else 1.2)
    axes.set_yscale("log")
    axes.set_xlabel("trials")
    axes.set_ylabel("normalised regret (median)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
