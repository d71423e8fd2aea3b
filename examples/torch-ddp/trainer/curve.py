"""The learning curve as a picture."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # no display on a training machine; chosen before pyplot is imported
from matplotlib import pyplot as plt


def draw(path: Path, records: list[dict[str, Any]]) -> None:
    """Draw loss and test accuracy over epochs."""
    epochs = [record["epoch"] for record in records]
    figure, left = plt.subplots(figsize=(7, 4), layout="constrained")
    right = left.twinx()
    left.plot(epochs, [record["loss"] for record in records], "o-", color="tab:orange")
    right.plot(epochs, [record["accuracy"] for record in records], "s-", color="tab:blue")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.set(xlabel="epoch", yscale="log")
    left.set_ylabel("training loss", color="tab:orange")
    right.set_ylabel("test accuracy", color="tab:blue")
    right.axhline(0.97, color="tab:blue", linestyle=":", linewidth=1)
    left.set_title(f"handwritten digits: {records[-1]['accuracy']:.2%} after {epochs[-1]} epochs")
    figure.savefig(path, dpi=120)
    plt.close(figure)
