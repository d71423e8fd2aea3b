"""The group of ``backend="reduction"``: reducers perform large all-reduces, a plain group the rest.

A Python ``ProcessGroup`` replaces torch's whole group object, so it contains a plain group.  Each
collective that torch calls through its trampolines is passed on in Python, even if it could be
inherited: torch 2.13 holds the interpreter's lock while an inherited collective runs, and gloo's
threads need that lock to release tensors, which deadlocks at times.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from datetime import timedelta
from typing import Any, Callable, Mapping, Sequence

import torch
from torch import distributed as dist
from torch._C._distributed_c10d import AllreduceOptions, ProcessGroup, ReduceOp, Store, Work

from trainshed_trainer import contract
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_inner import (
    ANY_BACKEND,
    BackendChoice,
    RankChannel,
    failure_of,
    inner_group,
    register,
)
from trainshed_trainer.reduction.torch_lineup import LINGER_S, Lineup, confirm_by, form_lineup
from trainshed_trainer.reduction.torch_report import say
from trainshed_trainer.reduction.torch_route import Route
from trainshed_trainer.reduction.torch_routing import Routing
from trainshed_trainer.reduction.torch_work import ReductionWork, can_reduce

#: Bytes of a tensor whose time depends only on the links.
HUGE = 1 << 30
#: Seconds in which gloo's threads release the last tensors before the interpreter ends.
SETTLE_S = 0.05
SUM, AVERAGE = ReduceOp.SUM, ReduceOp.AVG
#: The collectives that torch calls through trampolines, under all names they had since torch 2.6.
FORWARDED = (
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_into_tensor_coalesced",
    "allreduce_coalesced",
    "alltoall_base",
    "barrier",
    "broadcast",
    "recv",
    "reduce_scatter",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "send",
)


class ReductionGroup(ProcessGroup):
    """The group of all ranks of a job; ``lineup`` is ``None`` if reducers are not used.

    After an error of the reducers every all-reduce raises it, and running all-reduces fail.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        world: int,
        timeout: timedelta,
        wish: BackendChoice = ANY_BACKEND,
    ) -> None:
        """Connect the ranks as torch does, without reducers."""
        super().__init__(rank, world)  # type: ignore[call-arg]  # its oldest overload
        self._inner = inner_group(store, rank, world, timeout, wish)
        register(self, self._inner.backends)
        if self._inner.crowded and rank == 0:
            _log_once("ranks share a GPU, which nccl does not support: gloo sends CUDA tensors")
        self._store = store
        self._timeout = timeout
        self._control = RankChannel(self._inner.gloo, rank, world)
        self._closed = False
        self._works: set[ReductionWork] = set()  # running all-reduces of the reducers
        self._routing: Routing | None = None
        self.lineup: Lineup | None = None

    def form(self, environ: Mapping[str, str] = os.environ) -> None:
        """Connect to the reducers and measure them; all ranks must call it.

        If the reducers are slower than a ring of the workers, the workers reduce a share too.
        """
        route = self._line_up(environ)
        plan = self.lineup.plan if self.lineup else None
        if plan and not (plan.hybrid or plan.one_machine or route.to_reducers(HUGE)):
            self._line_up(environ, workers_reduce=True)
        if self.lineup:
            self.lineup.report_to(environ.get(contract.TRAINSHED_REDUCTION_REPORT))

    def _line_up(self, environ: Mapping[str, str], *, workers_reduce: bool = False) -> Route:
        """Connect to the reducers, if there are any, and measure them."""
        if self.lineup:
            self.lineup.close()
        self.lineup = lineup = form_lineup(
            self._control, self._store, self._timeout, environ, workers_reduce=workers_reduce
        )
        if lineup is None:
            return Route()
        atexit.register(self._leave_at_exit)
        self._routing = Routing(
            lineup.plan.route, self._control, self._inner.group, lineup.exchange, self._timeout
        )
        return self._routing.route(torch.device("cpu"))

    def allreduce(self, tensors: Any, *args: Any, **kwargs: Any) -> Work:  # type: ignore[override]
        """Sum or average by reducers if that is faster, or else by the inner group.

        After an error of the reducers, every call raises this error.
        """
        lineup, operation = self.lineup, _operation(args, kwargs)
        error = lineup.exchange.failed() if lineup else None
        if error:
            raise error
        tensor = _single_tensor(tensors)
        if tensor is None or operation not in (SUM, AVERAGE):
            return self._inner.group.allreduce(tensors, *args, **kwargs)
        if lineup and self._routing and can_reduce(tensor) and self._routing.to_reducers(tensor):
            return self._by_reducers(lineup, tensor, average=operation == AVERAGE)
        if (
            operation == AVERAGE
            and self._inner.uses_gloo(tensor.device)
            and tensor.is_floating_point()
        ):
            return _average_by_gloo(self._inner.group, tensor, self._timeout)
        return self._inner.group.allreduce(tensors, *args, **kwargs)

    def confirm(self) -> None:
        """Wait for the call on every rank; if a rank has an error, raise it on all ranks.

        Call it before ``optimizer.step()``: then no rank takes a step that fails on another rank
        (docs/sources/reduction.md 5).
        """
        confirm_by(self._control, self.lineup)

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return the registered name."""
        return "reduction"

    def get_group_store(self) -> Store:
        """Return the store through which the ranks have connected."""
        return self._store

    def shutdown(self) -> None:
        """Leave the reducers and the inner group; further calls do nothing.

        First it waits for running all-reduces, ``LINGER_S`` seconds at most, as nccl and gloo do:
        an all-reduce that is interrupted fails on the other ranks, too.
        """
        self._leave(LINGER_S)

    def abort(self) -> None:
        """Leave at once; running all-reduces fail on every rank."""
        self._leave(0.0)
        with contextlib.suppress(RuntimeError):  # older gloo cannot
            self._inner.group.abort()

    def _by_reducers(self, lineup: Lineup, tensor: torch.Tensor, *, average: bool) -> Work:
        work, works = ReductionWork([tensor], self._timeout), self._works
        works.add(work)

        def done(error: ReductionError | None) -> None:  # threads keep it: no reference to self
            work.finish(error)
            works.discard(work)

        lineup.exchange.allreduce(tensor, average=average, done=done)
        return work

    def _wait_for_works(self, linger: float) -> None:
        """Wait for running all-reduces of the reducers, ``linger`` seconds at most."""
        until = time.monotonic() + linger
        for work in list(self._works):
            work.wait_over(until - time.monotonic())

    def _leave_at_exit(self) -> None:
        """Leave a group that was not destroyed; gloo's threads abort if they outlive Python."""
        self.shutdown()
        time.sleep(SETTLE_S)

    def _leave(self, linger: float) -> None:
        if not self._closed:
            self._closed = True
            atexit.unregister(self._leave_at_exit)
            if self.lineup:
                self._wait_for_works(linger)
                self.lineup.close(linger)
            self._inner.group.shutdown()


def create(options: Any, backend_options: Any = None) -> ReductionGroup:
    """Create a group; torch calls this for ``backend="reduction"``.

    Groups of a part of the ranks are plain, because reducers serve only the group of all ranks.
    """
    store, rank, world = options.store, options.group_rank, options.group_size
    is_choice = isinstance(backend_options, BackendChoice)
    wish = backend_options if is_choice else BackendChoice(nccl=True, options=backend_options)
    group = ReductionGroup(store, rank, world, options.timeout, wish)
    if options.global_ranks_in_group:
        _log_once(
            f"a group of {world} ranks does not use reducers: they serve the group of all ranks"
        )
        return group
    try:
        error = failure_of(group.form)
    except BaseException:
        group.shutdown()
        raise
    if error is None:
        return group
    group.shutdown()
    # this is the last reference, and gloo's threads must not outlive the interpreter
    del group
    raise error


def confirm(group: ProcessGroup | None = None) -> None:
    """Call :meth:`ReductionGroup.confirm` of ``group``, by default the group of all ranks."""
    reduction_group = group or dist.group.WORLD
    if not isinstance(reduction_group, ReductionGroup):
        raise ReductionError('confirm() needs a group of backend="reduction"')
    reduction_group.confirm()


def _make_forwarder(name: str) -> Callable[..., Any]:
    def call(self: ReductionGroup, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._inner.group, name)(*args, **kwargs)

    call.__name__ = name
    return call


for _name in FORWARDED:
    if hasattr(ProcessGroup, _name):
        setattr(ReductionGroup, _name, _make_forwarder(_name))


def _operation(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return SUM or AVERAGE; ``None`` for other operations and other signatures than DDP's."""
    options = kwargs.get("opts", args[0] if args else AllreduceOptions())
    if not isinstance(options, AllreduceOptions):
        return None
    operation: Any = options.reduceOp
    return next((supported for supported in (SUM, AVERAGE) if operation == supported), None)


def _single_tensor(tensors: Any) -> torch.Tensor | None:
    """Return the tensor of a call with one tensor, or None."""
    if isinstance(tensors, (list, tuple)) and len(tensors) == 1:
        tensor: torch.Tensor = tensors[0]
        return tensor
    return None


def _average_by_gloo(group: ProcessGroup, tensor: torch.Tensor, patience: timedelta) -> Work:
    """Average by gloo, which only sums before torch 2.13."""
    work = ReductionWork([tensor], patience)

    def divide(future: Any) -> None:
        try:
            future.value()
            tensor.detach().div_(group.size())
            work.finish(None)
        except RuntimeError as error:
            work.finish(ReductionError(f"the inner group has failed: {error}"))

    group.allreduce([tensor], AllreduceOptions()).get_future().add_done_callback(divide)
    return work


_LOGGED: set[str] = set()


def _log_once(text: str) -> None:
    if text not in _LOGGED:
        _LOGGED.add(text)
        say(text)
