"""Train on handwritten digits, on as many replicas as the environment says.

The global batch is fixed and divided over the replicas, and every replica shuffles alike, so that
three replicas learn the same model as one, up to the rounding of sums.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from trainer import checkpoints, data, model
from trainer.world import World

#: AI Platform Training gives --job-dir, Vertex AI a variable; alone, results lie beside the code.
JOB_DIR = os.environ.get("AIP_CHECKPOINT_DIR", "runs")


def main() -> None:
    """Train, from the newest checkpoint if there is one, and leave the results in the job dir."""
    args = arguments()
    torch.set_num_threads(args.threads)
    world = World()
    print(f"rank {world.rank} of {world.size} on {world.device}", flush=True)
    run = Run(args, world)
    run.resume()
    while run.epoch < args.epochs:
        run.train_one_epoch()
    if world.rank == 0:
        run.finish()
    del run  # its replicated model holds the process group
    world.leave()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", type=folder, default=JOB_DIR, help="where results go")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=48, help="of all replicas together")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a pause after each step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of one replica")
    return parser.parse_args()


def folder(text: str) -> Path:
    """Name the folder of a gs:// directory: buckets are mounted, on Vertex AI at /gcs."""
    return Path(text.replace("gs:/", os.environ.get("TRAINSHED_BUCKETS", "/gcs"), 1))


class Run:
    """One training run: the model, how far it has come, and where its results go."""

    def __init__(self, args: argparse.Namespace, world: World) -> None:
        """Build everything that all replicas have in common."""
        self.args, self.world, self.epoch = args, world, 0
        self.records: list[dict[str, Any]] = []
        train, test = data.load()
        self.train, self.test = ([t.to(world.device) for t in part] for part in (train, test))
        self.model = model.build(args.seed).to(world.device)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=args.learning_rate, momentum=0.9
        )

    def resume(self) -> None:
        """Go back to the newest checkpoint; rank 0 reads it and everybody gets it."""
        checkpoint = checkpoints.newest(self.args.job_dir) if self.world.rank == 0 else None
        state = self.world.shared(checkpoint)
        if state:
            self.epoch, self.records = state["epoch"], state["records"]
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.world.rank == 0:
                print(f"resumed after epoch {self.epoch}", flush=True)
        self.replica = self.world.replicated(self.model)

    def train_one_epoch(self) -> None:
        """Go over all images once; rank 0 then measures, tells and saves."""
        started = time.monotonic()
        self.epoch += 1
        order = data.shuffled(len(self.train[1]), self.args.seed, self.epoch)
        steps = order.split(self.args.batch_size)
        loss = self.world.total(sum(self.train_one_step(step) for step in steps)) / len(steps)
        if self.world.rank == 0:
            self.record(loss, started)

    def train_one_step(self, indices: torch.Tensor) -> float:
        """Learn from one global batch; give this replica's share of its mean loss.

        Gradients are averaged over replicas, so each share is scaled by their number: the average
        is then the gradient of the whole batch's mean, even where the shares differ in size.
        """
        own = indices[self.world.rank :: self.world.size].to(self.world.device)
        images, labels = (part[own] for part in self.train)
        loss = functional.cross_entropy(self.replica(images), labels, reduction="sum")
        share = loss / len(indices)
        self.optimizer.zero_grad()
        (share * self.world.size).backward()
        self.optimizer.step()
        time.sleep(self.args.step_seconds)
        return share.item()

    def record(self, loss: float, started: float) -> None:
        """Write down how the epoch went: a line of metrics, then a checkpoint that knows it."""
        entry = {"epoch": self.epoch, "loss": loss, "accuracy": self.accuracy()}
        entry["seconds"] = round(time.monotonic() - started, 3)
        self.records.append(entry)
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        checkpoints.save(self.args.job_dir, self.epoch, {**state, "records": self.records})
        lines = "".join(json.dumps(record) + "\n" for record in self.records)
        (self.args.job_dir / "metrics.jsonl").write_text(lines)
        print(
            f"epoch {self.epoch}/{self.args.epochs}  loss {loss:.4f}  "
            f"accuracy {entry['accuracy']:.4f}  {entry['seconds']:.2f} s",
            flush=True,
        )

    @torch.no_grad()
    def accuracy(self) -> float:
        """Measure the share of test images that are read correctly."""
        images, labels = self.test
        return (self.model(images).argmax(dim=1) == labels).float().mean().item()

    def finish(self) -> None:
        """Draw the learning curve and write down the result."""
        from trainer import curve  # noqa: PLC0415  # only rank 0 pays for importing matplotlib

        folder = self.args.job_dir
        folder.mkdir(parents=True, exist_ok=True)
        accuracy, fingerprint = self.accuracy(), model.fingerprint(self.model)
        result = {"accuracy": accuracy, "epochs": self.epoch, "weights_sha256": fingerprint}
        if self.records:
            curve.draw(folder / "learning-curve.png", self.records)
        (folder / "result.json").write_text(json.dumps(result) + "\n")
        print(f"test accuracy {accuracy:.4f} after {self.epoch} epochs", flush=True)


if __name__ == "__main__":
    main()
