"""A running all-reduce as torch sees it, and a tensor's memory as the client sees it."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, List, Union

import torch
from torch.distributed import Work
from torch.futures import Future

from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype

#: What goes over the wire; everything else stays with the inner group.
DTYPES = {
    torch.float32: Dtype.FLOAT32,
    torch.float16: Dtype.FLOAT16,
    torch.bfloat16: Dtype.BFLOAT16,
}
#: torch's word for "as long as the group says".
NO_TIMEOUT = timedelta(0)

Value = Union[torch.Tensor, List[torch.Tensor]]


def can_go(tensor: torch.Tensor) -> bool:
    """Whether reducers can sum this tensor: dense, contiguous, of a type that they know."""
    return (
        tensor.dtype in DTYPES
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and tensor.numel() > 0
        and tensor.device.type in ("cpu", "cuda")
    )


def size_of(tensor: torch.Tensor) -> int:
    """Bytes of a dense tensor."""
    return tensor.numel() * tensor.element_size()


def flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's own memory, as bytes: what is written there is written to it."""
    return tensor.detach().reshape(-1).view(torch.uint8)


def view_of(flat: torch.Tensor) -> memoryview:
    """Bytes in the host's memory as sockets take them; no copy, and it keeps them alive."""
    return memoryview(flat.numpy())  # type: ignore[arg-type]  # NumPy does not say so on Python 3.11


class ReductionWork(Work):
    """An all-reduce that has been given to reducers; every call is safe from any thread.

    Its future, which DDP waits for, fails with torch's own RuntimeError, in whose text the
    ReductionError stands; ``wait()`` raises the ReductionError itself.
    """

    def __init__(self, value: Value, patience: timedelta) -> None:
        """Run until :meth:`finish`; ``value`` is what the future then holds.

        ``patience`` is how long ``wait()`` waits where the caller does not say.
        """
        super().__init__()
        self._value = value
        self._patience = patience
        self._over = threading.Event()
        self._error: ReductionError | None = None
        self._sums: Future[Any] = Future(devices=_devices_of(value))
        self._future = self._sums.then(self._checked)

    def finish(self, error: ReductionError | None) -> None:
        """Be over.  For CUDA, call it with the stream current on which the sums arrive.

        An error asks nothing of the device: it may be what has failed.
        """
        self._error = error
        self._sums.set_result(None if error else self._value)
        self._over.set()

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Wait for the sums; :class:`ReductionError` if there are none or not in time."""
        patience = timeout or self._patience
        if not self._over.wait(patience.total_seconds()):
            raise ReductionError(f"an all-reduce has not ended within {patience}")
        if self._error:
            raise self._error
        self._future.wait()  # lets the current stream wait for the copy back to the device
        return True

    def wait_over(self, seconds: float) -> None:
        """Wait until it is over, well or not, ``seconds`` at most."""
        self._over.wait(max(0.0, seconds))

    def synchronize(self) -> None:
        """The same as waiting."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is over, well or not."""
        return self._over.is_set()

    def is_success(self) -> bool:
        """Whether the sums are there."""
        return self._over.is_set() and self._error is None

    def exception(self) -> ReductionError | None:
        """The error it ended with."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The tensors that hold the sums."""
        return [self._value] if isinstance(self._value, torch.Tensor) else self._value

    def get_future(self) -> Any:
        """A future of the sums."""
        return self._future

    def _checked(self, sums: Future[Any]) -> Any:
        if self._error:
            raise self._error
        return sums.value()


def _devices_of(value: Value) -> Any:
    tensors = [value] if isinstance(value, torch.Tensor) else value
    return [tensor.device for tensor in tensors if tensor.device.type == "cuda"]
