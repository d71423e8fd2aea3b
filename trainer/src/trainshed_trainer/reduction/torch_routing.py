"""Selects the route of tensors by device type; each route is measured at its first use."""

from __future__ import annotations

from datetime import timedelta

import torch
from torch._C._distributed_c10d import AllreduceOptions, ProcessGroup

from trainshed_trainer.reduction.torch_exchange import Exchange
from trainshed_trainer.reduction.torch_inner import RankChannel
from trainshed_trainer.reduction.torch_report import say
from trainshed_trainer.reduction.torch_route import MEASURED, Route, measure_route
from trainshed_trainer.reduction.torch_work import ReductionWork, size_of


class Routing:
    """Selects the tensors that go to the reducers; all ranks must call it in the same order."""

    def __init__(
        self,
        setting: str,
        control: RankChannel,
        inner: ProcessGroup,
        exchange: Exchange,
        patience: timedelta,
    ) -> None:
        """Choose between ``inner`` and ``exchange``, as ``setting`` says."""
        self._setting = setting
        self._control = control
        self._inner = inner
        self._exchange = exchange
        self._patience = patience
        self._routes: dict[str, Route] = {}

    def to_reducers(self, tensor: torch.Tensor) -> bool:
        """Return whether this tensor goes to the reducers."""
        route = self._routes.get(tensor.device.type)
        return (route or self.route(tensor.device)).to_reducers(size_of(tensor))

    def route(self, device: torch.device) -> Route:
        """Measure the route of tensors on one type of device.

        The route for CUDA is measured at the first all-reduce on CUDA, because a rank's device is
        known only then.
        """
        route = Route()
        if self._setting == MEASURED:
            route = measure_route(self._control, self._by_inner, self._by_reducers, device)
        self._routes[device.type] = route
        if self._control.rank == 0:
            say(f"tensors on {device.type}: {route}")
        return route

    def _by_inner(self, tensor: torch.Tensor) -> None:
        self._inner.allreduce([tensor], AllreduceOptions()).wait()
        _settle(tensor)

    def _by_reducers(self, tensor: torch.Tensor) -> None:
        work = ReductionWork([tensor], self._patience)
        self._exchange.allreduce(tensor, average=False, done=work.finish)
        work.wait()
        _settle(tensor)


def _settle(tensor: torch.Tensor) -> None:
    """Wait until the device has finished, so that its time is included."""
    if tensor.device.type == "cuda":
        torch.cuda.synchronize(tensor.device)
