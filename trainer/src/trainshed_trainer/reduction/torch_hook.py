"""A communication hook of DistributedDataParallel, for those who keep gloo or nccl as their group.

    state = ReductionState.from_env()
    model.register_comm_hook(state, reduction_hook)

Gradients go to the reducers, bucket by bucket while backward runs on, and come back averaged.
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
from trainshed_trainer.reduction.torch_lineup import Lineup, confirm_by, formed
from trainshed_trainer.reduction.torch_work import ReductionWork, can_go

#: How long a wait for gradients lasts where the caller does not say.
PATIENCE = timedelta(minutes=30)


class ReductionState:
    """What the hook needs: the way to the reducers, beside a group of the trainer's own."""

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
        """Find the reducers that the environment names; all ranks of the group call it.

        Without reducers the workers reduce by themselves.  ``process_group`` is the group that DDP
        uses, by default that of all ranks; one group of a job can have reducers.  Raises
        :class:`ReductionError` on all ranks.
        """
        group = process_group or c10d._get_default_group()  # noqa: SLF001 - torch has no other way
        store = PrefixStore("trainshed", c10d._get_process_group_store(group))  # noqa: SLF001
        gloo = gloo_backend(store, group.rank(), group.size(), timeout)
        control = RankChannel(gloo, group.rank(), group.size())
        lineup = formed(control, store, timeout, environ)
        if lineup:
            lineup.report_to(environ.get(contract.TRAINSHED_REDUCTION_REPORT))
        return cls(group, control, lineup)

    def confirm(self) -> None:
        """Return when every rank has come here without an error; else raise it on all of them."""
        confirm_by(self._control, self.lineup)

    def close(self) -> None:
        """Leave the reducers; a second time does nothing."""
        atexit.unregister(self.close)
        if not self._closed:
            self._closed = True
            if self.lineup:
                self.lineup.close()
            self._control.close()


def reduction_hook(state: ReductionState, bucket: GradBucket) -> Future[torch.Tensor]:
    """Average a bucket of gradients over all ranks; the group sums what reducers cannot."""
    gradient: torch.Tensor = bucket.buffer()
    lineup = state.lineup
    if lineup is None or not can_go(gradient):
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
