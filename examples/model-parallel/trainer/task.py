"""Train a model that is split over processes, and check it against the model in one piece."""

import argparse
import json
import os
import time
from pathlib import Path

import torch

from trainer import digits, unsplit
from trainer.grid import STAGES, Grid
from trainer.pipeline import Stage

#: AI Platform Training gives --job-dir, Vertex AI a variable; alone, results lie beside the code.
JOB_DIR = os.environ.get("AIP_CHECKPOINT_DIR", "runs")


def main() -> None:
    """Train the split model, then let rank 0 train the unsplit one and compare."""
    args = arguments()
    torch.set_num_threads(1)
    grid = Grid()
    place = f"piece {grid.stage} of replica {grid.replica}"
    print(f"rank {grid.rank}: {place} on {grid.device}", flush=True)
    curve, accuracy = train(grid, args)
    grid.leave()
    if grid.rank == 0:
        compare(curve, accuracy, grid, args)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", type=folder, default=JOB_DIR, help="where results go")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=48, help="of all replicas together")
    parser.add_argument("--micro-batches", type=int, default=4, help="per replica and batch")
    parser.add_argument("--tolerance", type=float, default=1e-9)
    return parser.parse_args()


def folder(text: str) -> Path:
    """Name the folder of a gs:// directory: buckets are mounted, on Vertex AI at /gcs."""
    return Path(text.replace("gs:/", os.environ.get("TRAINSHED_BUCKETS", "/gcs"), 1))


def train(grid: Grid, args: argparse.Namespace) -> tuple[list[float], float]:
    """Give the mean loss of each epoch and the accuracy at the end, on every process."""
    (images, labels), test = digits.load(grid.device)
    stage = Stage(grid, args.micro_batches)
    curve: list[float] = []
    for epoch in range(1, args.epochs + 1):
        started = time.monotonic()
        batches = digits.shuffled(len(labels), epoch).split(args.batch_size)
        share = sum(stage.train(images, labels, batch) for batch in batches)
        curve.append(grid.total(share) / len(labels))
        if grid.rank == 0:
            seconds = time.monotonic() - started
            print(f"epoch {epoch}/{args.epochs}  loss {curve[-1]:.6f}  {seconds:.2f} s", flush=True)
    return curve, grid.total(stage.correct(*test)) / len(test[1])


def compare(curve: list[float], accuracy: float, grid: Grid, args: argparse.Namespace) -> None:
    """Print how far the two loss curves lie apart; exit with 1 if it is too far."""
    reference = unsplit.losses(args.epochs, args.batch_size)
    difference = max(abs(a - b) for a, b in zip(curve, reference, strict=True))
    result = {
        "stages": STAGES,
        "replicas": grid.replicas,
        "accuracy": accuracy,
        "max_difference": difference,
    }
    args.job_dir.mkdir(parents=True, exist_ok=True)
    (args.job_dir / "result.json").write_text(json.dumps(result) + "\n")
    print(f"{STAGES} pieces x {grid.replicas}: test accuracy {accuracy:.4f}")
    print(f"max difference to the unsplit model {difference:.1e}", flush=True)
    if not difference <= args.tolerance:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
