"""The host's memory in the place of a GPU's: in a rehearsal, its tensors take the GPU's way."""

import contextlib
from contextlib import AbstractContextManager

import torch


class Now:
    """A point that a device which is never behind has come to."""

    def synchronize(self) -> None:
        """It is there."""

    def query(self) -> bool:
        """It is there."""
        return True

    def wait(self) -> None:
        """It is there."""


class HostMemory:
    """What :class:`trainshed_trainer.reduction.torch_memory.DeviceMemory` asks for, at once."""

    def __init__(self, device: torch.device) -> None:
        """Stand for any device."""
        self._device = device

    def inward(self) -> AbstractContextManager[None]:
        """There are no streams."""
        return contextlib.nullcontext()

    def outward(self) -> AbstractContextManager[None]:
        """There are no streams."""
        return contextlib.nullcontext()

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy."""
        target.copy_(source)

    def mark(self) -> Now:
        """Where it is."""
        return Now()

    def keep(self, tensor: torch.Tensor) -> None:
        """No stream is behind."""

    def host_memory(self, nbytes: int) -> torch.Tensor:
        """Plain memory."""
        return torch.empty(nbytes, dtype=torch.uint8)

    def trim(self) -> None:
        """Nothing is kept."""
