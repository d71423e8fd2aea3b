"""What ranks do with the tensors of a GPU; each program prints what it found as a line of JSON.

``DEVICE`` is ``cuda``, or ``cpu``: there a device of threads stands for the GPU, so that tensors
take the same way through host memory.

``DEVICE=... python reduce.py PROGRAM RANK WORLD STORE``
"""

import contextlib
import hashlib
import json
import os
import signal
import sys
import weakref
from pathlib import Path

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[2]))

from reduction.thread_device import standing_in
from reduction.torch_programs import in_rank_order, join, part, same_bits
from trainshed_trainer.reduction import torch_memory, torch_setup
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_hook import ReductionState, reduction_hook

torch_setup.register()  # where packages are only on the path, torch does not find it

DEVICE = os.environ["DEVICE"]
CUDA = DEVICE == "cuda"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SIZES = (1, 1000, 300_001, *((4_000_037,) if CUDA else ()))
SUM, AVERAGE = dist.ReduceOp.SUM, dist.ReduceOp.AVG
STEPS = 20 if CUDA else 5


class Metered(torch_memory.CudaMemory if CUDA else object):
    """A GPU whose host memory is counted."""

    held = peak = 0

    def host_memory(self, nbytes):
        buffer = super().host_memory(nbytes)
        Metered.held += nbytes
        Metered.peak = max(Metered.peak, Metered.held)
        weakref.finalize(buffer, self._gone, nbytes)
        return buffer

    @staticmethod
    def _gone(nbytes):
        Metered.held -= nbytes


@contextlib.contextmanager
def staged():
    """Let the device's tensors go through host memory; who counts it."""
    if not CUDA:
        with standing_in() as device:
            yield device
        return
    torch_memory.MEMORIES["cuda"] = Metered
    torch_memory.memory_of.cache_clear()
    yield Metered


def stream():
    """What makes a new stream the current one."""
    return torch.cuda.stream(torch.cuda.Stream()) if CUDA else contextlib.nullcontext()


def reduced(tensor, operation):
    """A tensor of its own with the sums, on the host."""
    tensor = tensor.clone()
    dist.all_reduce(tensor, op=operation)
    return tensor.cpu()


def sums(rank, world, store):
    """The device's tensors have the bits that the same values of the host have."""
    join("reduction", rank, world, store)
    cases = [(d, n, op) for d in DTYPES for n in SIZES for op in (SUM, AVERAGE)]
    tensors = [part(rank, size, dtype) for dtype, size, _ in cases]
    hosts = [reduced(tensor, case[2]) for tensor, case in zip(tensors, cases, strict=True)]
    with staged():
        own = [reduced(t.to(DEVICE), case[2]) for t, case in zip(tensors, cases, strict=True)]
    checks = {}
    for (dtype, size, operation), host, device in zip(cases, hosts, own, strict=True):
        checks[f"{operation} {dtype} {size}"] = same_bits(device, host)
        if operation == SUM:
            checks[f"promised {dtype} {size}"] = same_bits(host, in_rank_order(world, size, dtype))
    checks |= by_the_inner_group(rank, world)
    dist.destroy_process_group()
    return {"found": checks}


def by_the_inner_group(rank, world):
    """What reducers cannot, two ranks on one GPU still can."""
    wide = torch.full((1000,), float(rank), dtype=torch.float64, device=DEVICE)
    dist.all_reduce(wide, op=AVERAGE)
    tensor = torch.full((10,), float(rank), device=DEVICE)
    dist.broadcast(tensor, 1)
    dist.barrier()
    return {
        "average of doubles": bool((wide == sum(range(world)) / world).all()),
        "broadcast": bool((tensor == 1).all()),
    }


def streams(rank, world, store):
    """Tensors are made on one stream, used on another, and dropped while they are under way."""
    join("reduction", rank, world, store)
    making, using, right, untouched = stream(), stream(), [], []
    with staged():
        for turn in range(1, STEPS + 1):
            with making:
                late()
                tensor = torch.full((300_001,), float(turn * (rank + 1)), device=DEVICE)
                work = dist.all_reduce(tensor, async_op=True)
                dist.all_reduce(torch.ones(70_000, device=DEVICE), async_op=True)
                untouched.append(torch.zeros(70_000, device=DEVICE))
            with using:
                work.wait()
                right.append((tensor * 2 == turn * world * (world + 1)).all())
            del tensor, work
        dist.all_reduce(torch.ones(1, device=DEVICE))
    if CUDA:
        torch.cuda.synchronize()
    checks = {f"turn {turn}": bool(is_right) for turn, is_right in enumerate(right)}
    checks["what was dropped writes nowhere"] = not any(tensor.any() for tensor in untouched)
    dist.destroy_process_group()
    return {"found": checks}


def late():
    """Give the current stream a few milliseconds of work first."""
    if CUDA:
        matrix = torch.ones(4096, 4096, device=DEVICE)
        for _ in range(10):
            matrix = matrix @ matrix * 1e-4


def many(rank, world, store):
    """However many are under way, and one above the bound among them: all come back."""
    join("reduction", rank, world, store)
    sizes = [300_001, 1, 70_000, 1_000_003] * 8
    sizes[13] = 3_000_017
    with staged() as memory:
        tensors = [part(rank, size, torch.float32).to(DEVICE, copy=True) for size in sizes]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in works:
            work.wait()
        checks = {
            f"{place}: {size}": same_bits(tensor.cpu(), in_rank_order(world, size, torch.float32))
            for place, (size, tensor) in enumerate(zip(sizes, tensors, strict=True))
        }
        peak = memory.peak
    dist.destroy_process_group()
    return {"found": checks, "peak": peak}


def trained(rank, *, hook=(), parallel=True):
    """The losses of a small network, and a digest of its parameters afterwards."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64)]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    if parallel:
        model = DistributedDataParallel(model, bucket_cap_mb=0.05)
    if hook:
        model.register_comm_hook(*hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(STEPS):
        inputs = torch.randn(8, 64, generator=generator).to(DEVICE)
        optimizer.zero_grad()
        loss = ((model(inputs) - inputs) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    whole = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
    return {"losses": losses, "digest": hashlib.sha256(whole).hexdigest()}


def training(rank, world, store):
    """DDP over gloo, over the hook beside gloo, and over a group with reducers."""
    join("gloo", rank, world, store)
    runs = {"gloo": trained(rank)}
    with staged():
        state = ReductionState.from_env()
        runs["hook"] = trained(rank, hook=(state, reduction_hook))
        state.confirm()
        state.close()
        dist.destroy_process_group()
        join("reduction", rank, world, store + "2")
        runs["group"] = trained(rank)
        dist.destroy_process_group()
    return runs


def alone(rank, world, store):
    """DDP of one process, whose group has nobody to reduce with."""
    join("reduction", rank, world, store)
    runs = {"bare": trained(rank, parallel=False), "group": trained(rank)}
    dist.destroy_process_group()
    return runs


def losing(rank, world, store):
    """A reducer is killed while ranks reduce; what they are told."""
    join("reduction", rank, world, store)
    culprit = None
    with staged():
        tensor = torch.ones(300_001, device=DEVICE)
        for turn in range(10_000):
            try:
                if rank == 0 and turn == 3:
                    os.kill(int(os.environ["VICTIM"]), signal.SIGKILL)
                dist.all_reduce(tensor)
            except ReductionError as error:
                culprit = error.culprit
                break
    works = bool((torch.ones(3, device=DEVICE) * 2).sum() == 6)
    dist.destroy_process_group()
    return {"culprit": culprit, "device works": works}


if __name__ == "__main__":
    program, rank, world, store = sys.argv[1:]
    answer = globals()[program](int(rank), int(world), store)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
