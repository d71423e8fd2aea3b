"""Train on handwritten digits, on as many replicas as the environment says.

Nothing in here says who sums the gradients.  That is chosen where the job is described: by default
the replicas do, and with TRAINSHED_TORCH_BACKEND=reduction in their environment reducers do.
"""

import argparse
import gc
import json
import os
import socket
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from trainer import digits

#: AI Platform Training gives --job-dir, Vertex AI a variable; alone, results lie beside the code.
JOB_DIR = os.environ.get("AIP_CHECKPOINT_DIR", "runs")
#: What a program that was started without a job meets: itself.
ALONE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "RANK": "0", "WORLD_SIZE": "1"}
#: Steps whose time does not count: DDP settles its buckets, and connections warm up.
WARM_UP = 2


def main() -> None:
    """Train; rank 0 says how well and how fast."""
    args = arguments()
    torch.set_num_threads(1)
    for name, value in ALONE.items():
        os.environ.setdefault(name, value)
    dist.init_process_group()  # reads MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE
    run = Run(args)
    run.train()
    if run.rank == 0:
        run.finish()
    del run  # its replicated model holds the process group
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", type=folder, default=JOB_DIR, help="where results go")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=96, help="of all replicas together")
    parser.add_argument("--width", type=int, default=1024, help="of each layer")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def folder(text: str) -> Path:
    """Name the folder of a gs:// directory: buckets are mounted, on Vertex AI at /gcs."""
    return Path(text.replace("gs:/", os.environ.get("TRAINSHED_BUCKETS", "/gcs"), 1))


def device_for_all() -> torch.device:
    """Use GPUs if every replica has one to itself; a mixed world trains on CPUs."""
    own = None
    if torch.cuda.is_available():
        own = (socket.gethostname(), str(torch.cuda.get_device_properties(0).uuid))
    devices = [own] * dist.get_world_size()
    dist.all_gather_object(devices, own)
    return torch.device("cuda" if own and len(set(devices)) == dist.get_world_size() else "cpu")


class Run:
    """One training run."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Build what all replicas have in common."""
        self.args, self.device = args, device_for_all()
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        train, test = digits.load()
        self.train_part, self.test_part = (
            [tensor.to(self.device) for tensor in part] for part in (train, test)
        )
        self.model = digits.build(args.width, args.seed).to(self.device)
        self.replica = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=args.learning_rate, momentum=0.9
        )
        self.seconds: list[float] = []
        if self.rank == 0:
            print(
                f"{self.size} replicas on {self.device}, "
                f"{digits.gradient_mb(self.model):.1f} MB of gradients a step",
                flush=True,
            )

    def train(self) -> None:
        """Go over all images as often as asked; all replicas shuffle alike and share each batch."""
        count = len(self.train_part[1])
        for epoch in range(1, self.args.epochs + 1):
            shuffle = torch.Generator().manual_seed(self.args.seed * 1_000_003 + epoch)
            order = torch.randperm(count, generator=shuffle)
            losses = [self.step(batch) for batch in order.split(self.args.batch_size)]
            if self.rank == 0:
                print(
                    f"epoch {epoch}/{self.args.epochs}  loss {statistics.mean(losses):.4f}  "
                    f"accuracy {self.accuracy():.4f}  {self.step_seconds():.3f} s a step",
                    flush=True,
                )

    def step(self, batch: torch.Tensor) -> float:
        """Learn from this replica's part of a batch; give its loss."""
        began = time.monotonic()
        own = batch[self.rank :: self.size].to(self.device)
        images, labels = (tensor[own] for tensor in self.train_part)
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.replica(images), labels)
        loss.backward()
        self.optimizer.step()
        value = loss.item()  # on a GPU this is where the step ends
        self.seconds.append(time.monotonic() - began)
        return value

    def step_seconds(self) -> float:
        """Give the median time of a step."""
        return statistics.median(self.seconds[WARM_UP:] or self.seconds)

    @torch.no_grad()
    def accuracy(self) -> float:
        """Measure the share of test images that are read correctly."""
        images, labels = self.test_part
        return (self.model(images).argmax(dim=1) == labels).float().mean().item()

    def finish(self) -> None:
        """Write down the result."""
        result = {
            "accuracy": self.accuracy(),
            "replicas": self.size,
            "gradient_mb": digits.gradient_mb(self.model),
            "step_seconds": self.step_seconds(),
        }
        self.args.job_dir.mkdir(parents=True, exist_ok=True)
        (self.args.job_dir / "result.json").write_text(json.dumps(result) + "\n")
        print(
            f"test accuracy {result['accuracy']:.4f}, {result['step_seconds']:.3f} s a step",
            flush=True,
        )


if __name__ == "__main__":
    main()
