"""The picture of the figures that have a goal: how far each is from it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

#: By whether the goal is met; a rehearsal meets none and misses none.
COLOURS: Final = {True: "tab:green", False: "tab:red", None: "lightgrey"}


def draw(figures: Sequence[Mapping[str, Any]], image: Path) -> str:
    """Draw one bar a figure; why it was not drawn, where it could not be."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # not everybody has it
    except ImportError:
        return "matplotlib is not installed"
    rows = [row for row in figures if row["goal"] is not None][::-1]
    if not rows:
        return "no figure has a goal"
    figure = Figure(figsize=(9, 1.2 + 0.4 * len(rows)), layout="constrained")
    axes = figure.subplots()
    shares = [share(row) for row in rows]
    colours = [COLOURS[row["holds"]] for row in rows]
    axes.barh([row["name"] for row in rows], shares, color=colours)
    axes.axvline(1.0, color="black", linewidth=1)
    for place, row in enumerate(rows):
        goal = f"{'at least' if row['better'] == 'more' else 'at most'} {row['goal']:g}"
        axes.text(0.02, place, f"{row['value']:.4g} {row['unit']}  ({goal})", va="center")
    axes.set_xlim(0, 2)
    axes.set_xlabel("how well the goal is met: 1 is just met, more is better")
    figure.savefig(image, dpi=120)
    return ""


def share(row: Mapping[str, Any]) -> float:
    """Value over goal, or the other way round where less is better; 2 at most."""
    value, goal = float(row["value"]), float(row["goal"])
    if row["better"] == "more":
        return min(2.0, value / goal)
    return 2.0 if value <= goal / 2 else goal / value
