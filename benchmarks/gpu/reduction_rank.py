"""One rank of `reduction.py`: it does all that is planned, and rank 0 tells the seconds.

`python -m benchmarks.gpu.reduction_rank RANK WORLD STORE PLAN`
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.gpu.bench import in_turns
from benchmarks.gpu.host_memory import HostMemory
from benchmarks.harness import Json
from trainshed_trainer.reduction import torch_memory, torch_setup
from trainshed_trainer.reduction.client import Done
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype
from trainshed_trainer.reduction.torch_exchange import Carrier
from trainshed_trainer.reduction.torch_work import ReductionWork, size_of

torch_setup.register()  # where packages are only on the path, torch does not find it

TIMEOUT: Final = timedelta(seconds=90)
#: DDP's own.
BUCKET_MB: Final = 25

Pairs = list[tuple[float, float]]


class Rank:
    """One rank, and the device that it shares."""

    def __init__(self, rank: int, world: int, store: str, plan: Json) -> None:
        """Meet the others: once by reducers, once by gloo."""
        self.rank = rank
        self.plan = plan
        self.device = torch.device(plan["device"])
        dist.init_process_group(
            "reduction",
            init_method=f"file://{store}",
            rank=rank,
            world_size=world,
            timeout=TIMEOUT,
        )
        self.gloo = dist.new_group(backend="gloo", timeout=TIMEOUT)

    def seconds(self, action: Callable[[], object]) -> float:
        """How long an action takes on the slowest rank, with what the device has to do for it."""
        self.agreed(0.0)  # all begin together
        duration = timed(self.device, action)
        return self.agreed(duration)

    def agreed(self, value: float) -> float:
        """The largest that any rank has."""
        largest = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.gloo)
        return float(largest)

    def tensor(self, nbytes: int) -> torch.Tensor:
        """A tensor of the device; sums of zeros take as long as others."""
        return torch.zeros(max(1, nbytes // 4), device=self.device)


def exchange(me: Rank, nbytes: int, pairs: int) -> Pairs:
    """By gloo and by reducers, in turns."""
    tensor = me.tensor(nbytes)

    def by_gloo() -> float:
        return me.seconds(lambda: dist.all_reduce(tensor, group=me.gloo))

    def by_reducers() -> float:
        return me.seconds(lambda: dist.all_reduce(tensor))

    in_turns(by_gloo, by_reducers, 1)  # warm
    return in_turns(by_gloo, by_reducers, pairs)


class Echo:
    """A client whose rounds end when they begin, so that nothing but staging is left."""

    def allreduce(self, buffer: memoryview, dtype: Dtype, *, average: bool, done: Done) -> None:
        """Give back what came."""
        del buffer, dtype, average
        done(None)

    def failed(self) -> ReductionError | None:
        """Nothing can."""
        return None

    def close(self) -> None:
        """Nothing is open."""


def staging(me: Rank, nbytes: int, count: int, pairs: int) -> Json:
    """Plain pinned copies and the backend's own, of rank 0 alone."""
    tensors = [me.tensor(nbytes) for _ in range(count)]
    pinned = torch.empty_like(tensors[0], device="cpu", pin_memory=me.device.type == "cuda")
    carrier = Carrier(Echo())

    def plain() -> None:
        for tensor in tensors:
            pinned.copy_(tensor, non_blocking=True)
            tensor.copy_(pinned, non_blocking=True)

    def staged() -> None:
        works = [ReductionWork([tensor], TIMEOUT) for tensor in tensors]
        for work, tensor in zip(works, tensors, strict=True):
            carrier.allreduce(tensor, average=False, done=work.finish)
        for work in works:
            work.wait()

    def both(turns: int) -> Pairs:
        return in_turns(lambda: timed(me.device, plain), lambda: timed(me.device, staged), turns)

    both(1)  # warm
    timings = both(pairs)
    carrier.close()
    return {"count": count, "nbytes": sum(map(size_of, tensors)), "pairs": timings}


def timed(device: torch.device, action: Callable[[], object]) -> float:
    """Seconds of an action, with what the device has to do for it."""
    settle(device)
    began = time.monotonic()
    action()
    settle(device)
    return time.monotonic() - began


def settle(device: torch.device) -> None:
    """Wait until the device has nothing to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def overlap(me: Rank) -> Json:
    """A DDP step, and what it is made of: as much computing, and as much exchange."""
    plan = me.plan["overlap"]
    width, layers = plan["width"], plan["layers"]
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers))).to(me.device)
    parallel = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    nbytes = sum(map(size_of, model.parameters()))
    sizes = [BUCKET_MB << 20] * (nbytes // (BUCKET_MB << 20)) + [nbytes % (BUCKET_MB << 20)]
    buckets = [me.tensor(size) for size in sizes if size]

    def exchanged() -> None:
        works = [dist.all_reduce(bucket, async_op=True) for bucket in buckets]
        for work in works:
            work.wait()

    def computed(batch: int) -> None:
        with parallel.no_sync():
            stepped(batch)

    def stepped(batch: int) -> None:
        parallel.zero_grad(set_to_none=False)
        inputs = torch.ones(batch, width, device=me.device)
        parallel(inputs).square().mean().backward()

    batch = plan["batch"]
    for way in (lambda: stepped(batch), lambda: computed(batch), exchanged):
        me.seconds(way)  # warm
    # where both take as long, what is not hidden shows best
    ratio = me.seconds(exchanged) / me.seconds(lambda: computed(batch))
    batch = max(1, min(plan["batch_max"], int(batch * ratio)))
    ways = {
        "step": lambda: stepped(batch),
        "compute": lambda: computed(batch),
        "exchange": exchanged,
    }
    for way in ways.values():
        me.seconds(way)  # warm
    timings: Json = {name: [] for name in ways}
    for _ in range(plan["turns"]):
        for name, way in ways.items():
            timings[name].append(me.seconds(way))
    megabytes = nbytes / (1 << 20)
    what = f"{layers} linear layers, {megabytes:.1f} MB of gradients, batch {batch}, two ranks"
    return {**timings, "what": what}


def main() -> None:
    """Do all of it."""
    rank, world, store, text = sys.argv[1:]
    me = Rank(int(rank), int(world), store, json.loads(text))
    if me.device.type == "cpu":
        torch_memory.MEMORIES["cpu"] = HostMemory
        torch_memory.memory_of.cache_clear()
    plan = me.plan
    timings: Json = {"exchange": {}, "staging": {}}
    for mb, pairs in plan["exchange"].items():
        timings["exchange"][mb] = exchange(me, int(mb) * plan["mb"], pairs)
    if me.rank == 0:
        for mb, (count, pairs) in plan["staging"].items():
            timings["staging"][mb] = staging(me, int(mb) * plan["mb"], count, pairs)
    me.agreed(0.0)  # the others wait: the bus is rank 0's alone meanwhile
    timings["overlap"] = overlap(me)
    if me.rank == 0:
        print(json.dumps(timings), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
