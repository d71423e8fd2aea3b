"""Train so that being stopped at any step changes nothing: the weights end the same, bit by bit.

Four things make it so.  A checkpoint holds everything that the next step depends on: weights, the
optimizer's moments, every replica's random numbers, the step.  The order of the data is not kept
but computed, from the seed and the step.  Gradients are summed in one tensor that is always laid
out alike, since sums of floats depend on their order.  A GPU is told to do sums in one order too.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from trainshed_trainer import checkpoint_saver, latest_checkpoint, notice, progress

SAMPLES, FEATURES, CLASSES, BATCH = 1200, 20, 4, 48
#: What a shell reports of a program that SIGTERM ended.
TOLD_TO_STOP = 143


def main() -> None:
    """Train from the newest checkpoint on, until all steps are done or a notice comes."""
    args = arguments()
    torch.set_num_threads(1)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first use of a GPU
    torch.use_deterministic_algorithms(True)
    notice()  # from here on SIGTERM is a notice, not the end
    run = Run(args)
    run.resume()
    is_told = False
    while run.step < args.steps and not is_told:
        is_told = run.train_one_step()
        time.sleep(args.step_seconds)
        progress(step=run.step, total=args.steps)
        if is_told or run.step % args.save_every == 0 or run.step == args.steps:
            run.save()
    code = run.finish()
    run.leave()
    sys.exit(code)


def arguments() -> argparse.Namespace:
    """Read the command line; the checkpoints' place is read by the library."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", help="where results go")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a pause after each step")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Run:
    """The state of a training, on one replica of as many as the environment says."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Build what all replicas have in common, and give each random numbers of its own."""
        self.args, self.step = args, 0
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        if self.size > 1:
            dist.init_process_group("gloo")
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.say(f"on {self.device}")
        torch.manual_seed(args.seed)
        self.inputs, self.labels = (part.to(self.device) for part in samples())
        self.model = nn.Sequential(
            nn.Linear(FEATURES, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, CLASSES)
        ).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.saver = checkpoint_saver(keep_last=3, suffix=".pt")
        torch.manual_seed(args.seed * 1000 + self.rank)  # dropout differs from replica to replica

    def resume(self) -> None:
        """Go back to the newest checkpoint; rank 0 reads it and everybody gets it."""
        newest = latest_checkpoint(pattern="checkpoint-*.pt") if self.rank == 0 else None
        checkpoint = torch.load(newest, map_location="cpu", weights_only=True) if newest else None
        state = self.shared(checkpoint)
        if state:
            self.step = state["step"]
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.restore_random(state["random"])
        self.say(f"resumed from step {self.step}" if state else "started at step 0")

    def restore_random(self, states: list[torch.Tensor]) -> None:
        """Go on with this replica's random numbers, if there are as many replicas as before."""
        if len(states) != self.size:
            self.say(f"saved by {len(states)} replicas, not {self.size}: dropout begins anew")
        elif len(states[self.rank]) != len(self.random_state()):
            self.say("saved on a GPU or a CPU, and now on the other: dropout begins anew")
        elif self.device.type == "cuda":
            torch.cuda.set_rng_state(states[self.rank])
        else:
            torch.set_rng_state(states[self.rank])

    def random_state(self) -> torch.Tensor:
        """Where the random numbers are that dropout goes on with: a GPU has its own."""
        return torch.cuda.get_rng_state() if self.device.type == "cuda" else torch.get_rng_state()

    def save(self) -> None:
        """Write down everything that the next step depends on; rank 0 does it for all."""
        random = self.gathered(self.random_state())
        if self.rank == 0:
            state = {
                "step": self.step,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "random": random,
            }
            self.saver.save(self.step, lambda out: torch.save(state, out))
            self.say(f"saved step {self.step}")

    def train_one_step(self) -> bool:
        """Learn from this replica's part of a batch; say whether any replica was told to stop.

        All learn that in the same step, so that no one waits for who has left.
        """
        own = self.batch()[self.rank :: self.size]
        outputs = self.model(self.inputs[own])
        loss = functional.cross_entropy(outputs, self.labels[own], reduction="sum") / BATCH
        self.optimizer.zero_grad()
        loss.backward()
        is_told = self.sum_gradients(is_told=notice() is not None)
        self.optimizer.step()
        self.step += 1
        return is_told

    def batch(self) -> torch.Tensor:
        """Give the next batch of all replicas: shuffled anew in every epoch, alike everywhere."""
        epoch, place = divmod(self.step, SAMPLES // BATCH)
        shuffler = torch.Generator().manual_seed(self.args.seed * 1_000_003 + epoch)
        return torch.randperm(SAMPLES, generator=shuffler)[place * BATCH : (place + 1) * BATCH]

    def sum_gradients(self, *, is_told: bool) -> bool:
        """Add up the gradients of all replicas, and in the same message who was told to stop."""
        gradients = [weights.grad for weights in self.model.parameters()]
        stop = torch.tensor([float(is_told)])
        if self.size > 1:
            flat = torch.cat([*(gradient.flatten().cpu() for gradient in gradients), stop])
            dist.all_reduce(flat)
            *parts, stop = flat.split([*(gradient.numel() for gradient in gradients), 1])
            for gradient, part in zip(gradients, parts, strict=True):
                gradient.copy_(part.view_as(gradient))
        return bool(stop.item())

    def finish(self) -> int:
        """Write down the result if all steps are done; give the program's exit code."""
        if self.step < self.args.steps:
            self.say(f"told to stop at step {self.step}: {notice()}")
            return TOLD_TO_STOP
        if self.rank == 0:
            result = {"steps": self.step, "weights_sha256": fingerprint(self.model)}
            self.saver.directory.mkdir(parents=True, exist_ok=True)
            (self.saver.directory.parent / "result.json").write_text(json.dumps(result) + "\n")
            self.say(f"finished step {self.step}, weights {result['weights_sha256'][:16]}")
        return 0

    def shared(self, value: Any) -> Any:
        """Give everybody what rank 0 has."""
        box = [value]
        if self.size > 1:
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def gathered(self, value: torch.Tensor) -> list[torch.Tensor]:
        """Give everybody's values to everybody, in the order of ranks."""
        values = [value]
        if self.size > 1:
            values = [torch.empty_like(value) for _ in range(self.size)]
            dist.all_gather(values, value)
        return values

    def leave(self) -> None:
        """Say goodbye together."""
        if self.size > 1:
            dist.barrier()
            dist.destroy_process_group()

    def say(self, words: str) -> None:
        """Print as rank 0, which speaks for all."""
        if self.rank == 0:
            print(words, flush=True)


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    """Make points and their classes, the same in every run."""
    source = torch.Generator().manual_seed(7)
    inputs = torch.randn(SAMPLES, FEATURES, generator=source)
    return inputs, (inputs @ torch.randn(FEATURES, CLASSES, generator=source)).argmax(dim=1)


def fingerprint(model: nn.Module) -> str:
    """Give one number for all weights: equal if and only if every bit of them is."""
    digest = hashlib.sha256()
    for name, weights in model.state_dict().items():
        digest.update(name.encode())
        digest.update(weights.cpu().numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
