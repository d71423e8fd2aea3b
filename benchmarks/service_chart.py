"""The picture of what a submit costs."""

from collections.abc import Sequence
from pathlib import Path

from service_measures import Cost


def draw(costs: Sequence[Cost], image: Path) -> str:
    """Draw the curve; why it was not drawn, where it could not be."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # not everybody has it
    except ImportError:
        return "the picture: matplotlib is not installed"
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    queued = [cost.queued for cost in costs]
    axes.plot(queued, [cost.cpu_ms for cost in costs], marker="o", label="CPU of the server")
    axes.set_xlabel("jobs that wait already")
    axes.set_ylabel("ms per submit")
    axes.set_ylim(bottom=0)
    axes.set_title("What a submit costs, beside 5,000 running jobs on 1,000 nodes")
    axes.grid(alpha=0.3)
    axes.legend()
    image.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(image, dpi=120)
    return ""
