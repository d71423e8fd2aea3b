"""What the ranks of the torch tests do; each program prints what it found as a line of JSON.

``python torch_programs.py PROGRAM RANK WORLD STORE``
"""

import gc
import hashlib
import json
import os
import signal
import sys
from datetime import timedelta

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from trainshed_trainer.reduction import torch_routing
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_group import ReductionGroup, confirm
from trainshed_trainer.reduction.torch_hook import ReductionState, reduction_hook
from trainshed_trainer.reduction.torch_route import Route

TIMEOUT = timedelta(seconds=120)
SIZES = (1, 1000, 300_001)


def join(backend: str | None, rank: int, world: int, store: str) -> None:
    dist.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=world, timeout=TIMEOUT
    )


def part(rank: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """What a rank contributes; every rank can make every other's."""
    generator = torch.Generator().manual_seed(1000 * rank + size)
    return torch.randn(size, generator=generator).to(dtype)


def in_rank_order(
    world: int, size: int, dtype: torch.dtype, *, average: bool = False
) -> torch.Tensor:
    """The sum that is promised: 32 bits, in the order of ranks, rounded once."""
    total = part(0, size, dtype).float()
    for rank in range(1, world):
        total += part(rank, size, dtype).float()
    if average:
        total /= world
    return total.to(dtype)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def nearly(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two differ by the rounding of 16 bits at most."""
    return torch.allclose(one.float(), other.float(), rtol=0.02, atol=0.03)


def sums(rank: int, world: int, *, exactly: bool = True) -> dict[str, bool]:
    """Sums have the bits that are promised; gloo's, where it is faster, need not."""
    checks = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for size in SIZES:
            tensor, right = part(rank, size, dtype), in_rank_order(world, size, dtype)
            dist.all_reduce(tensor)
            same = same_bits if exactly else nearly
            checks[f"sum {dtype} {size}"] = same(tensor, right)
            tensor = part(rank, size, dtype)
            right = in_rank_order(world, size, dtype, average=True)
            dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
            checks[f"average {dtype} {size}"] = nearly(tensor, right)
    return checks


def several_at_once(rank: int, world: int, *, exactly: bool = True) -> dict[str, bool]:
    same = same_bits if exactly else nearly
    tensors = [part(rank, size, torch.float32) for size in (70_000, 5, 200_000, 40_000)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works]
    for work in works:
        work.wait()
    right = [
        same(tensor, in_rank_order(world, tensor.numel(), torch.float32)) for tensor in tensors
    ]
    return {
        "several at once": all(right),
        "all are over": all(work.is_completed() for work in works),
        "futures hold the sums": all(
            future.wait()[0].data_ptr() == tensor.data_ptr()
            for future, tensor in zip(futures, tensors, strict=True)
        ),
    }


def other_reductions(rank: int, world: int) -> dict[str, bool]:
    """All-reduces that stay with the inner group."""
    counts = torch.arange(5) + rank
    dist.all_reduce(counts)
    largest = torch.full((100_000,), float(rank))
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    wide = torch.full((100_000,), float(rank), dtype=torch.float64)
    dist.all_reduce(wide, op=dist.ReduceOp.AVG)
    turned = torch.full((300, 200), float(rank + 1)).t()
    dist.all_reduce(turned)
    pair = [torch.ones(3), torch.ones(4)]
    dist.group.WORLD.allreduce_coalesced(pair).wait()
    reduced = torch.ones(4)
    dist.reduce(reduced, 0)
    return {
        "integers": counts.tolist() == [world * i + sum(range(world)) for i in range(5)],
        "max": bool((largest == world - 1).all()),
        "doubles": bool((wide == sum(range(world)) / world).all()),
        "turned": bool((turned == sum(range(1, world + 1))).all()),
        "coalesced": all(bool((tensor == world).all()) for tensor in pair),
        "reduce": rank != 0 or reduced.tolist() == [world] * 4,
    }


def collectives(rank: int, world: int) -> dict[str, bool]:
    """What is no all-reduce."""
    dist.barrier()
    dist.monitored_barrier()
    me, ranks = torch.full((1,), float(rank)), [float(number) for number in range(world)]
    copy = me.clone()
    dist.broadcast(copy, 1)
    gathered = [torch.zeros(1) for _ in ranks]
    dist.all_gather(gathered, me)
    flat = torch.zeros(world)
    dist.all_gather_into_tensor(flat, me)
    scattered = torch.zeros(2)
    dist.reduce_scatter_tensor(scattered, torch.ones(2 * world))
    swapped = torch.zeros(world)
    dist.all_to_all_single(swapped, me.repeat(world))
    collected = [torch.zeros(1) for _ in ranks] if rank == 0 else None
    dist.gather(me, collected, dst=0)
    mine = torch.zeros(1)
    dist.scatter(mine, [torch.tensor([number]) for number in ranks] if rank == 0 else None)
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    return {
        "broadcast": copy.item() == 1,
        "all_gather": [number.item() for number in gathered] == ranks,
        "all_gather_into_tensor": flat.tolist() == ranks,
        "reduce_scatter": scattered.tolist() == [world, world],
        "all_to_all": swapped.tolist() == ranks,
        "gather": collected is None or [number.item() for number in collected] == ranks,
        "scatter": mine.item() == rank,
        "objects": objects == [{"rank": number} for number in range(world)],
        "send": sent_on(rank) == 1,
    }


def again_and_again(world: int) -> dict[str, bool]:
    """Collectives with tensors that gloo's threads release: torch's trampolines would hang here."""
    for turn in range(200):
        objects = [None] * world
        dist.all_gather_object(objects, turn)
    return {"again and again": objects == [turn] * world}


def sent_on(rank: int) -> float:
    """What rank 1 gets from rank 0."""
    got = torch.ones(3)
    if rank == 0:
        dist.send(got, 1)
    elif rank == 1:
        dist.recv(got.zero_(), 0)
    return float(got[0])


def sub_groups(rank: int) -> dict[str, bool]:
    some = dist.new_group([0, 1])
    checks = {}
    if rank < 2:
        tensor = torch.full((200_000,), float(rank + 1))
        dist.all_reduce(tensor, group=some)
        checks["a group of some"] = bool((tensor == 3).all())
        tensor = torch.full((10,), float(rank + 1))
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG, group=some)
        checks["their average"] = bool((tensor == 1.5).all())
    return checks


def digest(model: torch.nn.Module) -> str:
    whole = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    return hashlib.sha256(whole).hexdigest()


def network(seed: int = 1) -> DistributedDataParallel:
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64)]
    return DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.05)


def step(model: torch.nn.Module, generator: torch.Generator) -> None:
    """One step of training, with this rank's own data."""
    inputs = torch.randn(8, 64, generator=generator)
    model.zero_grad()
    ((model(inputs) - inputs) ** 2).mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.1 * parameter.grad)


def trained(rank: int, *hook: object) -> torch.nn.Module:
    """Train a small network for a few steps; ``hook`` is what DDP is given to reduce with."""
    model = network()
    if hook:
        model.register_comm_hook(*hook)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(5):
        step(model, generator)
    return model


def values(model: torch.nn.Module) -> list[float]:
    return [float(p.detach().double().sum()) for p in model.parameters()]


def rounds() -> int:
    """How many all-reduces this rank's client has begun, those of the formation included."""
    return dist.group.WORLD.lineup.client._round


def everything(rank: int, world: int, store: str) -> dict:
    """Pure reducers: what is summed, what is passed on, DDP, and the hook on a gloo group."""
    join("reduction", rank, world, store)
    checks = {**sums(rank, world), **several_at_once(rank, world)}
    before = rounds()
    checks |= {**other_reductions(rank, world), **collectives(rank, world), **sub_groups(rank)}
    checks |= again_and_again(world)
    checks["they need no reducers"] = rounds() == before
    confirm()
    by_group = trained(rank)
    checks["DDP needs them"] = rounds() > before
    dist.destroy_process_group()
    join("gloo", rank, world, store + "2")
    checks["no wish, no reducers"] = not isinstance(dist.group.WORLD, ReductionGroup)
    by_gloo = trained(rank)
    state = ReductionState.from_env()
    before = state.lineup.client._round
    by_hook = trained(rank, state, reduction_hook)
    state.confirm()
    checks["the hook reduces"] = state.lineup.client._round > before
    state.close()
    dist.destroy_process_group()
    models = {"group": by_group, "gloo": by_gloo, "hook": by_hook}
    return {
        "found": checks,
        "digests": {name: digest(model) for name, model in models.items()},
        "values": {name: values(model) for name, model in models.items()},
    }


def unchanged(rank: int, world: int, store: str) -> dict:
    """A trainer that asks for gloo, or for nothing, and never ends its group."""
    join("gloo", rank, world, store)
    checks = {"a group with reducers": isinstance(dist.group.WORLD, ReductionGroup)}
    checks["by the name it knows"] = dist.get_backend() == "gloo"
    checks["that has plain parts"] = type(dist.new_group([0, 1])) is not ReductionGroup
    dist.monitored_barrier()
    before = rounds()
    checks |= sums(rank, world, exactly=False)
    checks |= several_at_once(rank, world, exactly=False)
    model = trained(rank)
    return {
        "found": checks,
        "digest": digest(model),
        "routes": str(dist.group.WORLD._routing._routes["cpu"]),
        "by reducers": rounds() - before,
    }


def dying(rank: int, world: int, store: str) -> dict:
    """A rank is killed in the middle of a training; what the others are told."""
    join("reduction", rank, world, store)
    model, generator = network(), torch.Generator().manual_seed(rank)
    right, raised = all(sums(rank, world).values()), RuntimeError()
    reduced = torch.ones(100_000)
    for turn in range(10_000):
        try:
            if rank == int(os.environ["VICTIM"]) and turn == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            step(model, generator)
        except RuntimeError as error:
            raised = error
            break
    checks = {"backward raised it": "ReductionError" in repr(raised), "sums are right": right}
    for call in (lambda: dist.all_reduce(reduced), lambda: dist.all_reduce(torch.ones(1)), confirm):
        try:
            call()
        except ReductionError as error:
            checks.setdefault("errors", []).append([str(error), error.culprit])
    dist.destroy_process_group()
    return checks


def hosts(rank: int, world: int, store: str) -> dict:
    """Ranks that share hosts, by the names that they were given."""
    join("reduction", rank, world, store)
    checks = several_at_once(rank, world, exactly=False)
    tensor = part(rank, 300_001, torch.float32)
    dist.all_reduce(tensor)
    right = in_rank_order(world, tensor.numel(), tensor.dtype)
    checks["sum"] = nearly(tensor, right)
    tensor = part(rank, 300_001, torch.bfloat16)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    right = in_rank_order(world, tensor.numel(), tensor.dtype, average=True)
    checks["average"] = nearly(tensor, right)
    model = trained(rank)
    lineup = dist.group.WORLD.lineup
    checks["one client a host"] = (lineup.client is not None) == (rank in (0, 2))
    confirm()
    answer = {"found": checks, "digest": digest(model)}
    return answer | {"errors": after_the_leader(rank, lineup)}


def after_the_leader(rank: int, lineup: object) -> list:
    """What ranks are told when the connections of host 0's leader break between two rounds."""
    dist.barrier()
    if rank == 0:
        lineup.client._fail(ReductionError("reducer 0 has caught fire"))
    errors = []
    for _ in range(2):
        try:
            dist.all_reduce(torch.ones(100_000))
        except ReductionError as error:
            errors.append(str(error))
    dist.destroy_process_group()
    return errors


def unformed(rank: int, world: int, store: str) -> dict:
    """Four groups that cannot be: the token, a setting, one of one rank, an address of one."""
    errors = []
    route, size = "TRAINSHED_REDUCTION_ROUTE", "TRAINSHED_REDUCTION_MAX_STAGING"
    wrong = [{}, {route: "sometimes"}, {size: "much"}, {"TRAINSHED_REDUCERS": "nowhere"}]
    for number, variables in enumerate(wrong):
        os.environ[route] = "always"
        if number < 2 or rank == 1:
            os.environ.update(variables)
        try:
            join("reduction", rank, world, f"{store}{number}")
        except ReductionError as error:
            errors.append(str(error))
    left = [group for group in gc.get_objects() if isinstance(group, ReductionGroup)]
    return {"errors": errors, "left": len(left)}


def slow_reducers(rank: int, world: int, store: str) -> dict:
    """Reducers enough, but slower than a ring by the first measurement of two."""
    verdicts = [Route(((float("inf"), False),)), Route()]
    torch_routing.measure_route = lambda *_: verdicts.pop(0)
    join("reduction", rank, world, store)
    plan = dist.group.WORLD.lineup.plan
    checks = {"the workers reduce too": plan.hybrid and len(plan.reducers) == world}
    checks |= sums(rank, world)
    checks["they were measured twice"] = not verdicts
    dist.destroy_process_group()
    return {"found": checks}


if __name__ == "__main__":
    program, rank, world, store = sys.argv[1:]
    answer = globals()[program](int(rank), int(world), store)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
