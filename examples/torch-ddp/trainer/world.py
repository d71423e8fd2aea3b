"""The other replicas: found in the environment, and asked to agree."""

import functools
import gc
import os
import socket
from typing import Any

import torch
import torch.distributed as dist


class World:
    """All replicas of the job; a program that was started alone is a world of one."""

    def __init__(self) -> None:
        """Meet the others at MASTER_ADDR; every replica waits here until all have come."""
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        if self.size > 1:
            dist.init_process_group("gloo")  # reads MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE
        self.device = self._device()

    def shared(self, value: Any) -> Any:
        """Give everybody what rank 0 has."""
        box = [value]
        if self.size > 1:
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def total(self, value: float) -> float:
        """Add up one number of every replica."""
        number = torch.tensor(value, dtype=torch.float64)
        if self.size > 1:
            dist.all_reduce(number)
        return number.item()

    def replicated(self, model: torch.nn.Module) -> torch.nn.Module:
        """Wrap a model so that its gradients are averaged over all replicas."""
        if self.size == 1:
            return model
        if self.device.type == "cuda":
            group = dist.new_group(backend="nccl")
            return torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        replica = torch.nn.parallel.DistributedDataParallel(model)
        replica.register_comm_hook(None, averaged_in_order)
        return replica

    def leave(self) -> None:
        """Say goodbye together, when nothing holds the process group any more.

        A group that goes down with the interpreter, while its threads still run, can abort it.
        """
        if self.size > 1:
            gc.collect()
            dist.barrier()
            dist.destroy_process_group()

    def _device(self) -> torch.device:
        """Use GPUs if every replica has one to itself; a mixed world trains on CPUs."""
        own = None
        if torch.cuda.is_available():
            own = (socket.gethostname(), str(torch.cuda.get_device_properties(0).uuid))
        devices = [own] * self.size
        if self.size > 1:
            dist.all_gather_object(devices, own)
        return torch.device("cuda" if own and len(set(devices)) == self.size else "cpu")


def averaged_in_order(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average gradients by adding them up in the order of ranks, on CPUs.

    DDP's own way lets the order depend on where in its buckets a gradient lies, and that changes
    after the first step; a restarted job would end with other last bits than an undisturbed one.
    """
    parts = [torch.empty_like(bucket.buffer()) for _ in range(dist.get_world_size())]
    work = dist.all_gather(parts, bucket.buffer(), async_op=True)
    assert work is not None
    return work.get_future().then(lambda _: functools.reduce(torch.add, parts) / len(parts))
