"""A running all-reduce as torch's ``Work``, and a tensor's memory as bytes for the client."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, List, Union

import torch
from torch.distributed import Work
from torch.futures import Future

from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype

#: The types that reducers can sum; the inner group sums all others.
DTYPES = {
    torch.float32: Dtype.FLOAT32,
    torch.float16: Dtype.FLOAT16,
    torch.bfloat16: Dtype.BFLOAT16,
}
#: torch's value for "the timeout of the group".
NO_TIMEOUT = timedelta(0)

Value = Union[torch.Tensor, List[torch.Tensor]]


def can_reduce(tensor: torch.Tensor) -> bool:
    """Return whether reducers can sum this tensor: dense, contiguous and of a supported type."""
    return (
        tensor.dtype in DTYPES
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and tensor.numel() > 0
        and tensor.device.type in ("cpu", "cuda")
    )


def size_of(tensor: torch.Tensor) -> int:
    """Return the bytes of a dense tensor."""
    return tensor.numel() * tensor.element_size()


def flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of a contiguous tensor's memory as bytes."""
    return tensor.detach().reshape(-1).view(torch.uint8)


def view_of(flat: torch.Tensor) -> memoryview:
    """Return a view of bytes in host memory for sockets; it makes no copy and owns a reference."""
    return memoryview(flat.numpy())  # type: ignore[arg-type]  # NumPy does not say so on Python 3.11


class ReductionWork(Work):
    """An all-reduce by reducers; every method may be called from any thread.

    Its future, which DDP waits for, fails with torch's RuntimeError, whose text contains the
    ReductionError; ``wait()`` raises the ReductionError itself.
    """

    def __init__(self, value: Value, patience: timedelta) -> None:
        """Run until :meth:`finish`, which makes ``value`` the value of the future.

        ``patience`` is the default timeout of ``wait()``.
        """
        super().__init__()
        self._value = value
        self._patience = patience
        self._over = threading.Event()
        self._error: ReductionError | None = None
        self._sums: Future[Any] = Future(devices=_devices_of(value))
        self._future = self._sums.then(self._checked)

    def finish(self, error: ReductionError | None) -> None:
        """End the work.  For CUDA, the stream on which the sums arrive must be current.

        After an error the device is not used, because it may have failed.
        """
        self._error = error
        self._sums.set_result(None if error else self._value)
        self._over.set()

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Wait for the sums; :class:`ReductionError` after an error or the timeout."""
        patience = timeout or self._patience
        if not self._over.wait(patience.total_seconds()):
            raise ReductionError(f"an all-reduce has not ended within {patience}")
        if self._error:
            raise self._error
        self._future.wait()  # lets the current stream wait for the copy back to the device
        return True

    def wait_over(self, seconds: float) -> None:
        """Wait for the end, successful or not, for ``seconds`` at most."""
        self._over.wait(max(0.0, seconds))

    def synchronize(self) -> None:
        """Wait as :meth:`wait` does, with the default timeout."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether the all-reduce has ended, successfully or not."""
        return self._over.is_set()

    def is_success(self) -> bool:
        """Return whether the all-reduce has ended without an error."""
        return self._over.is_set() and self._error is None

    def exception(self) -> ReductionError | None:
        """Return the error of the all-reduce; None if it has none."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """Return the tensors that hold the sums."""
        return [self._value] if isinstance(self._value, torch.Tensor) else self._value

    def get_future(self) -> Any:
        """Return the future of the sums."""
        return self._future

    def _checked(self, sums: Future[Any]) -> Any:
        if self._error:
            raise self._error
        return sums.value()


def _devices_of(value: Value) -> Any:
    tensors = [value] if isinstance(value, torch.Tensor) else value
    return [tensor.device for tensor in tensors if tensor.device.type == "cuda"]
