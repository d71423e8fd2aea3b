"""Draws the pictures of all benchmarks.

Each function writes a picture and returns "", or returns the reason why it wrote none, for example
because matplotlib is not installed: the release does not require it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from benchmarks.planning.answers import Answer
    from benchmarks.reduction.stage import Setting
    from benchmarks.service.measures import Cost
    from benchmarks.tuning.regrets import Regrets

NOT_INSTALLED: Final = "matplotlib is not installed"
#: By whether a goal is met; a dry run is not judged: None.
COLOURS: Final = {True: "tab:green", False: "tab:red", None: "lightgrey"}


def _new_figure(width: float, height: float) -> Any:
    """Return an empty picture, its size in inches; None without matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # an optional package
    except ImportError:
        return None
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, image: Path, dpi: int) -> str:
    image.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(image, dpi=dpi)
    return ""


def draw_submit_cost(costs: "Sequence[Cost]", image: Path) -> str:
    """Draw the CPU time of a submit over the length of the queue."""
    figure = _new_figure(7, 3.6)
    if figure is None:
        return NOT_INSTALLED
    axes = figure.subplots()
    queued = [cost.queued for cost in costs]
    axes.plot(queued, [cost.cpu_ms for cost in costs], marker="o", label="CPU of the server")
    axes.set_xlabel("jobs that wait already")
    axes.set_ylabel("ms per submit")
    axes.set_ylim(bottom=0)
    axes.set_title("What a submit costs, beside 5,000 running jobs on 1,000 nodes")
    axes.grid(alpha=0.3)
    axes.legend()
    return _save(figure, image, 120)


def draw_first_lines(seconds: Mapping[str, Sequence[float]], image: Path) -> str:
    """Draw the seconds from a submission to the first line on Slurm, a box for each side."""
    figure = _new_figure(7, 3.6)
    if figure is None:
        return NOT_INSTALLED
    axes = figure.subplots()
    axes.boxplot([list(times) for times in seconds.values()], orientation="horizontal")
    axes.set_yticks(range(1, len(seconds) + 1), list(seconds))
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds from the submission to the first line of the last task")
    axes.grid(alpha=0.3)
    return _save(figure, image, 120)


def draw_ratios(settings: "Sequence[Setting]", image: Path) -> str:
    """Draw a bar for each setting with large tensors: the speed-up of reducers over gloo's ring.

    Small tensors do not test the links, and their bars would be much longer than all others.
    """
    settings = [setting for setting in settings if setting.size_mb >= 1]
    if not settings:
        return "no setting with a tensor of 1 MB or more was measured"
    figure = _new_figure(8, 0.8 + 0.42 * len(settings))
    if figure is None:
        return NOT_INSTALLED
    axes = figure.subplots()
    rows = range(len(settings))
    ratios = [setting.ratio for setting in settings]
    bars = axes.barh(rows, ratios, color="tab:blue", label="measured")
    axes.bar_label(bars, fmt="%.2f", padding=-32, color="white")
    theory = [(row, setting.theory) for row, setting in enumerate(settings) if setting.rate_mbit]
    axes.scatter(
        [ratio for _, ratio in theory],
        [row for row, _ in theory],
        marker="|", s=240, color="black", zorder=3, label="what the links allow",
    )  # fmt: skip
    axes.axvline(1, color="gray", linewidth=1, linestyle="--", label="gloo's ring")
    axes.set_yticks(rows, [setting.name for setting in settings])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * max(max(setting.ratio, setting.theory) for setting in settings))
    axes.set_xlabel("times faster than gloo, in the same run")
    axes.set_title("All-reduce of N workers through R reducers")
    figure.legend(loc="outside lower center", ncols=3, fontsize="small")
    return _save(figure, image, 120)


def draw_gpu_figures(figures: Sequence[Mapping[str, Any]], image: Path) -> str:
    """Draw a bar for each figure with a goal: how well the goal is met."""
    rows = [row for row in figures if row["goal"] is not None][::-1]
    if not rows:
        return "no figure has a goal"
    figure = _new_figure(9, 1.2 + 0.4 * len(rows))
    if figure is None:
        return NOT_INSTALLED
    axes = figure.subplots()
    shares = [_share_of_goal(row) for row in rows]
    colours = [COLOURS[row["holds"]] for row in rows]
    axes.barh([row["name"] for row in rows], shares, color=colours)
    axes.axvline(1.0, color="black", linewidth=1)
    for place, row in enumerate(rows):
        goal = f"{'at least' if row['better'] == 'more' else 'at most'} {row['goal']:g}"
        axes.text(0.02, place, f"{row['value']:.4g} {row['unit']}  ({goal})", va="center")
    axes.set_xlim(0, 2)
    axes.set_xlabel("how well the goal is met: 1 is just met, more is better")
    return _save(figure, image, 120)


def _share_of_goal(row: Mapping[str, Any]) -> float:
    """Return value / goal, or goal / value if less is better; at most 2."""
    value, goal = float(row["value"]), float(row["goal"])
    if row["better"] == "more":
        return min(2.0, value / goal)
    return 2.0 if value <= goal / 2 else goal / value


def draw_regret(tables: "Mapping[str, Regrets]", image: Path) -> str:
    """Draw the median regret of each peer over the trials, one panel for each mode."""
    figure = _new_figure(10, 3.8)
    if figure is None:
        return NOT_INSTALLED
    panels = figure.subplots(1, len(tables), squeeze=False)[0]
    peers = sorted({peer for table in tables.values() for peer in table.by_peer})
    colours = {peer: f"C{index}" for index, peer in enumerate(peers)} | {"ours": "black"}
    for axes, (mode, table) in zip(panels, tables.items(), strict=True):
        for peer, paths in table.by_peer.items():
            steps = range(1, min(map(len, paths.values())) + 1)
            medians = [table.median(peer, step) for step in steps]
            width = 2.5 if peer == "ours" else 1.2
            axes.plot(steps, medians, label=peer, linewidth=width, color=colours[peer])
        axes.set_title(mode)
        axes.set_yscale("log")
        axes.set_xlabel("trials")
        axes.set_ylabel("normalised regret (median)")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return _save(figure, image, 100)


def draw_efficiencies(answers: "Sequence[Answer]", image: Path) -> str:
    """Draw predicted over measured efficiencies, with a mark on values outside their interval."""
    figure = _new_figure(9, 4.4)
    if figure is None:
        return NOT_INSTALLED
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    titles = {"G1": "an inner count, the others measured", "G3": "larger clusters, short run"}
    for axes, (goal, title) in zip(panels, titles.items(), strict=True):
        selected = [answer for answer in answers if answer.goal == goal]
        for inside, mark, colour in ((True, ".", "tab:blue"), (False, "x", "tab:red")):
            some = [answer for answer in selected if answer.inside is inside]
            axes.plot(
                [answer.efficiency(answer.point.step_s) for answer in some],
                [answer.efficiency(answer.step_s.point) for answer in some],
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
    return _save(figure, image, 110)
