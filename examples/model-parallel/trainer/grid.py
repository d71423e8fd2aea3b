"""The processes as a grid: one column per piece of the model, one row per replica of it.

With two processes the model is split; with four it is split and replicated.  Neighbours in a row
hand activations and gradients to each other; a column adds up its gradients.  A process uses the
GPU that it sees, and several may see the same: what they send goes through the memory of the CPU.
"""

import os

import torch
import torch.distributed as dist
from torch import nn

STAGES = 2


class Grid:
    """The place of this process in the grid, and its way to the others."""

    def __init__(self) -> None:
        """Meet the others at MASTER_ADDR; every process waits here until all have come."""
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        if self.size % STAGES:
            raise SystemExit(f"the model has {STAGES} pieces: {self.size} processes cannot hold it")
        dist.init_process_group("gloo")  # reads MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE
        self.replicas = self.size // STAGES
        self.replica, self.stage = divmod(self.rank, STAGES)
        columns = [dist.new_group(list(range(s, self.size, STAGES))) for s in range(STAGES)]
        self.column = columns[self.stage]
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    @property
    def is_last(self) -> bool:
        """Whether this process holds the piece that ends in the loss."""
        return self.stage == STAGES - 1

    def send(self, tensor: torch.Tensor, step: int) -> None:
        """Hand a tensor to the next stage (``step`` 1) or to the one before (-1)."""
        dist.send(tensor.contiguous().cpu(), self.rank + step)

    def receive(self, shape: tuple[int, ...], step: int) -> torch.Tensor:
        """Take a tensor from a neighbour in the row."""
        tensor = torch.empty(shape, dtype=torch.float64)
        dist.recv(tensor, self.rank + step)
        return tensor.to(self.device)

    def add_up_gradients(self, piece: nn.Module) -> None:
        """Add up the gradients of a piece over its replicas, all in one message."""
        gradients = [weights.grad for weights in piece.parameters() if weights.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients]).cpu()
        dist.all_reduce(flat, group=self.column)
        totals = flat.split([gradient.numel() for gradient in gradients])
        for gradient, total in zip(gradients, totals, strict=True):
            gradient.copy_(total.view_as(gradient))

    def total(self, value: float) -> float:
        """Add up one number of every process."""
        number = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(number)
        return number.item()

    def leave(self) -> None:
        """Say goodbye, so that nobody waits for us."""
        dist.destroy_process_group()
