"""The picture of how many times faster than gloo each setting is, and could be."""

from collections.abc import Sequence
from pathlib import Path

from reduction_stage import Setting


def draw(settings: Sequence[Setting], image: Path) -> str:
    """Draw one bar a large setting; why it was not drawn, where it could not be.

    Small tensors are not about links, and gain so much that nothing else could be seen.
    """
    settings = [setting for setting in settings if setting.size_mb >= 1]
    if not settings:
        return "the picture: nothing was measured that it shows"
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # not everybody has it
    except ImportError:
        return "the picture: matplotlib is not installed"
    figure = Figure(figsize=(8, 0.8 + 0.42 * len(settings)), layout="constrained")
    axes = figure.subplots()
    rows = range(len(settings))
    bars = axes.barh(
        rows, [setting.ratio for setting in settings], color="tab:blue", label="measured"
    )
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
    image.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(image, dpi=120)
    return ""
