"""One piece of the model at work: micro-batches forward, then their gradients back.

While the second stage works on a micro-batch, the first one is already at the next: that is the
whole point of cutting a batch into small ones.
"""

import torch
from torch.nn import functional

from trainer import digits
from trainer.grid import Grid


class Stage:
    """The piece of the model that this process holds."""

    def __init__(self, grid: Grid, micro_batches: int) -> None:
        """Build the piece; all replicas of it begin alike."""
        self.grid = grid
        self.micro_batches = micro_batches
        self.piece = digits.pieces()[grid.stage].to(grid.device)
        self.optimizer = digits.optimizer(self.piece)

    def train(self, images: torch.Tensor, labels: torch.Tensor, batch: torch.Tensor) -> float:
        """Learn from a global batch; give this process's share of its summed loss.

        Each row of the grid takes its share of the batch.  Losses are summed and divided by the
        size of the global batch, so that shares need not be of equal size.
        """
        own = batch[self.grid.replica :: self.grid.replicas]
        self.optimizer.zero_grad()
        work = [
            self.forward(images[micro], labels[micro]) for micro in own.chunk(self.micro_batches)
        ]
        for entry, result in work:
            self.backward(entry, result, len(batch))
        self.grid.add_up_gradients(self.piece)
        self.optimizer.step()
        return sum(result.item() for _, result in work) if self.grid.is_last else 0.0

    def forward(
        self, images: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run one micro-batch through this piece; give what came in and what came out."""
        if not self.grid.is_last:
            activations = self.piece(images)
            self.grid.send(activations.detach(), +1)
            return images, activations
        entry = self.grid.receive((len(images), digits.CUT), -1).requires_grad_()
        return entry, functional.cross_entropy(self.piece(entry), labels, reduction="sum")

    def backward(self, entry: torch.Tensor, result: torch.Tensor, batch_size: int) -> None:
        """Run the gradient of one micro-batch back through this piece."""
        if self.grid.is_last:
            (result / batch_size).backward()
            self.grid.send(entry.grad, -1)
        else:
            result.backward(self.grid.receive(tuple(result.shape), +1))

    @torch.no_grad()
    def correct(self, images: torch.Tensor, labels: torch.Tensor) -> float:
        """Count the images that the split model reads correctly, in the first row of the grid."""
        if self.grid.replica:
            return 0.0
        if not self.grid.is_last:
            self.grid.send(self.piece(images), +1)
            return 0.0
        logits = self.piece(self.grid.receive((len(images), digits.CUT), -1))
        return float((logits.argmax(dim=1) == labels).sum())
