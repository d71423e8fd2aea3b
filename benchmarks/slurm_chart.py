"""The picture of how long each side takes to a first line."""

from collections.abc import Mapping, Sequence
from pathlib import Path


def draw(seconds: Mapping[str, Sequence[float]], image: Path) -> str:
    """Draw the rounds of every side; why it was not drawn, where it could not be."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # not everybody has it
    except ImportError:
        return "the picture: matplotlib is not installed"
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.boxplot([list(times) for times in seconds.values()], orientation="horizontal")
    axes.set_yticks(range(1, len(seconds) + 1), list(seconds))
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds from the submission to the first line of the last task")
    axes.grid(alpha=0.3)
    image.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(image, dpi=120)
    return ""
