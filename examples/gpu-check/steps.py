"""A few training steps of a small model, on a CPU or a GPU, and how long they took.

What is measured is a model's own work, not its start: the first steps are not counted, and a GPU is
waited for before the clock is read.  Put your own model into ``build`` to see what a GPU does for
it.
"""

import argparse
import json
import time
from functools import partial

import torch
from torch import nn
from torch.nn import functional

WARM_UP_STEPS = 2


def main() -> None:
    """Run the steps and print one line of JSON."""
    args = arguments()
    torch.manual_seed(1)
    device = torch.device(args.device)
    model = build().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(args.batch_size, 3, args.image_size, args.image_size, device=device)
    labels = torch.randint(10, (args.batch_size,), device=device)
    step = partial(train, model, optimizer, images, labels)
    step(WARM_UP_STEPS)
    started = time.monotonic()
    step(args.steps)
    seconds = round(time.monotonic() - started, 4)
    print(json.dumps({"device": args.device, "steps": args.steps, "seconds": seconds}), flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="steps.py")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=32)
    return parser.parse_args()


def build() -> nn.Module:
    """Build a small convolutional network."""
    return nn.Sequential(
        nn.Conv2d(3, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(64 * 16, 10),
    )


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
    steps: int,
) -> None:
    """Take some steps and wait until the last one is done."""
    for _ in range(steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    if images.is_cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
