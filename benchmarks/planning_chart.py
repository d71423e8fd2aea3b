"""The picture of predicted against measured: inner counts, and clusters from short runs.

Run it: .venv/bin/python benchmarks/planning_chart.py (a minute)
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from planning_answers import Answer
from planning_goals_scaling import answers_of

OUT = Path(__file__).parent.parent / "docs/images/planning-measured.png"


def draw(answers: Sequence[Answer], out: Path) -> None:
    """Efficiencies; what lies outside its interval is marked."""
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    titles = {"G1": "an inner count, the others measured", "G3": "larger clusters, short run"}
    for axes, (goal, title) in zip(panels, titles.items(), strict=True):
        selected = [answer for answer in answers if answer.goal == goal]
        for inside, mark, colour in ((True, ".", "tab:blue"), (False, "x", "tab:red")):
            some = [answer for answer in selected if answer.inside is inside]
            axes.plot(
                [answer.efficiency(answer.point.step_s) for answer in some],
                [answer.efficiency(answer.step_s) for answer in some],
                mark,
                color=colour,
                alpha=0.6,
                label=f"{'inside' if inside else 'outside'} the 80 % interval: {len(some)}",
            )
        axes.plot([0, 1.2], [0, 1.2], color="grey", linewidth=0.8)
        axes.set(title=title, xlabel="efficiency measured", xlim=(0, 1.2), ylim=(0, 1.2))
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left")
    panels[0].set_ylabel("efficiency predicted, system left out")
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    draw(answers_of(short=True), OUT)
