"""A few training steps of a model, on a CPU or a GPU, and how long they took.

What is measured is a model's own work, not its start: the first steps are not counted, and a GPU is
waited for before the clock is read.
"""

import argparse
import json
import time
from collections.abc import Sequence

import torch
from models import MODELS
from torch.nn import functional

WARM_UP_STEPS = 2


def main() -> None:
    """Run the steps and print one line of JSON."""
    args = arguments()
    training = Training(args)
    training.seconds(WARM_UP_STEPS)
    seconds = round(training.seconds(args.steps), 4)
    print(json.dumps({"device": args.device, "steps": args.steps, "seconds": seconds}), flush=True)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="steps.py")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cpu", "cuda"), default=device)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--model", choices=tuple(MODELS), default="conv")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=32, help="pixels; not for transformer")
    parser.add_argument("--width", type=int, help="of the first layer; default: the model's own")
    return parser.parse_args(words)


class Training:
    """A model that learns one batch by heart."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Put the model and its batch on the device."""
        torch.manual_seed(1)
        self.device, self.is_mixed = torch.device(args.device), args.precision == "bf16"
        model, inputs, answers = MODELS[args.model](args)
        self.model = model.to(self.device)
        self.inputs, self.answers = inputs.to(self.device), answers.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def seconds(self, steps: int) -> float:
        """Take some steps and wait until the last one is done; give the time in seconds."""
        started = time.monotonic()
        for _ in range(steps):
            self.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.monotonic() - started

    def step(self) -> torch.Tensor:
        """Learn once; give the loss."""
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.is_mixed):
            loss = functional.cross_entropy(self.model(self.inputs), self.answers)
        loss.backward()
        self.optimizer.step()
        return loss


if __name__ == "__main__":
    main()
