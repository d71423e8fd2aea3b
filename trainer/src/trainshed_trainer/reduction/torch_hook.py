"""A communication hook of DistributedDataParallel for trainers with a gloo or nccl group.

    state = ReductionState.from_env()
    model.register_comm_hook(state, reduction_hook)

Reducers average the gradients, bucket by bucket, while the backward pass continues.
"""

# ruff: noqa: FA100 - DDP reads the hook's annotations, and wants the types themselves there
import atexit
import os
from datetime import timedelta
from typing import Mapping, Optional

import torch
from torch import distributed as dist
from torch._C._distributed_c10d import GradBucket, PrefixStore, ProcessGroup
from torch.distributed import distributed_c10d as c10d
from torch.futures import Future

from trainshed_trainer import contract
from trainshed_trainer.reduction.torch_inner import RankChannel, gloo_backend
from trainshed_trainer.reduction.torch_lineup import Lineup, confirm_by, form_lineup
from trainshed_trainer.reduction.torch_work import ReductionWork, can_reduce

#: The default timeout of a wait for gradients.
PATIENCE = timedelta(minutes=30)


class ReductionState:
    """The state of the hook: the trainer's group and the connections to the reducers."""

    def __init__(self, group: ProcessGroup, control: RankChannel, lineup: Optional[Lineup]) -> None:
        """Use :meth:`from_env`."""
        self.group = group
        self.lineup = lineup
        self._control = control
        self._closed = False
        atexit.register(self.close)

    @classmethod
    def from_env(
        cls,
        process_group: Optional[ProcessGroup] = None,
        *,
        timeout: timedelta = PATIENCE,
        environ: Mapping[str, str] = os.environ,
    ) -> "ReductionState":
        """Connect to the reducers that the environment names; all ranks of the group must call it.

        Without reducers the workers reduce.  ``process_group`` is the group of DDP, by default the
        group of all ranks; only one group of a job can use reducers.  Raises
        :class:`ReductionError` on all ranks.
        """
        group = process_group or c10d._get_default_group()  # noqa: SLF001 - torch has no other way
        store = PrefixStore("trainshed", c10d._get_process_group_store(group))  # noqa: SLF001
        gloo = gloo_backend(store, group.rank(), group.size(), timeout)
        control = RankChannel(gloo, group.rank(), group.size())
        lineup = form_lineup(control, store, timeout, environ)
        if lineup:
            lineup.report_to(environ.get(contract.TRAINSHED_REDUCTION_REPORT))
        return cls(group, control, lineup)

    def confirm(self) -> None:
        """Wait for the call on every rank; if a rank has an error, raise it on all ranks."""
        confirm_by(self._control, self.lineup)

    def close(self) -> None:
        """Disconnect from the reducers; further calls do nothing."""
        atexit.unregister(self.close)
        if not self._closed:
            self._closed = True
            if self.lineup:
                self.lineup.close()
            self._control.close()


def reduction_hook(state: ReductionState, bucket: GradBucket) -> Future[torch.Tensor]:
    """Average a bucket of gradients over all ranks; ``group`` averages what reducers cannot."""
    gradient: torch.Tensor = bucket.buffer()
    lineup = state.lineup
    if lineup is None or not can_reduce(gradient):
        return _by_group(state.group, gradient)
    error = lineup.exchange.failed()
    if error:
        raise error
    work = ReductionWork(gradient, PATIENCE)
    lineup.exchange.allreduce(gradient, average=True, done=work.finish)
    future: Future[torch.Tensor] = work.get_future()
    return future


def _by_group(group: ProcessGroup, gradient: torch.Tensor) -> Future[torch.Tensor]:
    work = dist.all_reduce(gradient.div_(group.size()), group=group, async_op=True)
    future: Future[torch.Tensor] = work.get_future().then(lambda done: done.value()[0])
    return future
