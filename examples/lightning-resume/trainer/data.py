"""The data of each step, computed from the seed and the step."""

import argparse
from collections.abc import Iterator

import lightning
import torch

from trainer.model import CLASSES, FEATURES

SAMPLES, BATCH = 960, 32


class Batches:
    """What Lightning reads batches from: it begins at the step that the training has come to."""

    def __init__(self, model: lightning.LightningModule, args: argparse.Namespace) -> None:
        """Take the step from the model's trainer, when it begins to read."""
        self.model, self.args = model, args
        source = torch.Generator().manual_seed(7)
        self.inputs = torch.randn(SAMPLES, FEATURES, generator=source)
        teacher = torch.randn(FEATURES, CLASSES, generator=source)
        self.labels = (self.inputs @ teacher).argmax(dim=1)

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        """Give batch after batch, shuffled anew each time that all samples have been seen."""
        for step in range(self.model.trainer.global_step, self.args.steps):
            epoch, place = divmod(step, SAMPLES // BATCH)
            shuffler = torch.Generator().manual_seed(self.args.seed * 1_000_003 + epoch)
            order = torch.randperm(SAMPLES, generator=shuffler)
            own = order[place * BATCH : (place + 1) * BATCH]
            yield [self.inputs[own], self.labels[own]]
