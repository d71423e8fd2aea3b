"""The evaluator: it stands beside the cluster and measures each checkpoint that appears."""

import json
import time
from pathlib import Path

import tensorflow as tf

from trainer import model

PATIENCE_S = 120
POLL_S = 0.5


def run(folder: Path, epochs: int) -> None:
    """Measure checkpoints until the last epoch's has been seen."""
    records(folder).parent.mkdir(parents=True, exist_ok=True)
    records(folder).touch()  # the chief sees that somebody will measure
    images, labels = model.digits()[1]
    network = model.build()
    saved = tf.train.Checkpoint(model=network)
    for path in tf.train.checkpoints_iterator(str(model.checkpoints(folder))):
        saved.restore(path).expect_partial()
        loss, accuracy = network.evaluate(images, labels, verbose=0)
        epoch = model.number(path)
        # said before the chief, which ends all, can know
        print(f"epoch {epoch}: test loss {loss:.4f}  accuracy {accuracy:.4f}", flush=True)
        with records(folder).open("a") as out:
            out.write(json.dumps({"epoch": epoch, "loss": loss, "accuracy": accuracy}) + "\n")
        if epoch >= epochs:
            return


def awaited(folder: Path, epoch: int) -> float | None:
    """Wait for the measurement of an epoch; None if there is no evaluator, or it is too slow."""
    deadline = time.monotonic() + PATIENCE_S
    while records(folder).exists() and time.monotonic() < deadline:
        lines = map(json.loads, records(folder).read_text().splitlines())
        accuracies = [line["accuracy"] for line in lines if line["epoch"] == epoch]
        if accuracies:
            return accuracies[-1]
        time.sleep(POLL_S)
    return None


def records(folder: Path) -> Path:
    """Say where the measurements are written down."""
    return folder / "evaluations.jsonl"
