"""A small network with dropout, whose checkpoints hold dropout's random numbers."""

import hashlib
from typing import Any

import lightning
import torch
from torch import nn
from torch.nn import functional

FEATURES, CLASSES = 20, 4


class Classifier(lightning.LightningModule):
    """A network that puts points into classes."""

    def __init__(self) -> None:
        """Build it with the first weights that the seed gives."""
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, CLASSES)
        )
        self.random: torch.Tensor | None = None

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """Give the loss of a batch."""
        inputs, labels = batch
        return functional.cross_entropy(self.layers(inputs), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Learn with Adam, whose moments Lightning keeps."""
        return torch.optim.Adam(self.parameters(), lr=0.01)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the random numbers."""
        checkpoint["random"] = torch.get_rng_state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Remember the random numbers until training starts: what comes before uses some."""
        self.random = checkpoint["random"]

    def on_train_start(self) -> None:
        """Go on with the random numbers where there are some."""
        if self.random is not None:
            torch.set_rng_state(self.random)


def fingerprint(model: nn.Module) -> str:
    """Give one number for all weights: equal if and only if every bit of them is."""
    digest = hashlib.sha256()
    for name, weights in model.state_dict().items():
        digest.update(name.encode())
        digest.update(weights.numpy().tobytes())
    return digest.hexdigest()
