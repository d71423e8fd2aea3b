"""What one rank of `rings.py` does when it is told to: torch, with both backends.

Both all-reduce the same tensors over the same links from the same process, so that whatever slows
one of them down slows the other.
"""

import os
import time
from datetime import timedelta
from typing import Any, Final

import torch
import torch._dynamo  # DDP needs it; once, before the forks, is cheaper than in every one
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # documented
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness import Json
from trainshed_trainer.reduction import torch_setup

torch_setup.register()  # an installed package need not; a clone whose metadata is old must

TIMEOUT: Final = timedelta(seconds=90)
#: Values repeat after so many elements; every sum of them is exact in any order, in 16 bits too.
PATTERN: Final = 16
WIDTH: Final = 1024
DTYPES: Final = {"FLOAT32": torch.float32, "BFLOAT16": torch.bfloat16}


class TorchRank:
    """The state of a rank between requests."""

    def __init__(self, rank: int, address: str, interface: str) -> None:
        """A rank whose host is reached at ``address``, through ``interface``."""
        self.rank = rank
        self.address = address
        self.store: Any = None
        self.size = 0
        self.groups: dict[str, Any] = {}
        self.models: dict[str, nn.Module] = {}
        self.data = torch.zeros(0)
        self.batch = 1
        os.environ["GLOO_SOCKET_IFNAME"] = interface
        # namespaces of one machine share its name, and are still hosts of their own
        os.environ["TRAINSHED_REDUCTION_HOSTNAME"] = f"host-{rank}"
        torch.set_num_threads(1)

    def __call__(self, request: Json) -> Json:
        """Run the method that the request names in ``do``."""
        answer: Json = getattr(self, request.pop("do"))(**request)
        return answer

    def serve_store(self) -> Json:
        """Open the store through which ranks form groups; only rank 0 does this."""
        self.store = TCPStore(self.address, 0, is_master=True, wait_for_workers=False)
        return {"store": [self.address, self.store.port]}

    def meet(self, *, store: tuple[str, int]) -> Json:
        """Join the store of rank 0; all other ranks do this."""
        if self.store is None:
            self.store = TCPStore(*store, is_master=False)
        return {}

    def open(self, *, name: str, size: int, route: str, **where: Any) -> Json:
        """Form a group of the first ``size`` ranks, once with each backend.

        That with reducers is torch's group of all, since no other gets them.
        """
        addresses = [f"{host}:{port}" for host, port in where["reducers"]]
        os.environ["TRAINSHED_REDUCERS"] = ",".join(addresses)
        os.environ["TRAINSHED_REDUCTION_TOKEN"] = where["token"]
        os.environ["TRAINSHED_REDUCTION_ROUTE"] = route
        store = PrefixStore(name, self.store)
        dist.init_process_group(
            "reduction", store=store, rank=self.rank, world_size=size, timeout=TIMEOUT
        )
        gloo = dist.new_group(backend="gloo", timeout=TIMEOUT)
        self.size, self.groups = size, {"gloo": gloo, "reduction": dist.group.WORLD}
        return {}

    def close(self) -> Json:
        """Leave the groups of both backends."""
        self.models, self.groups = {}, {}
        dist.destroy_process_group()
        return {}

    def prepare(self, *, elements: int, dtype: str) -> Json:
        """Make a tensor whose sum is known."""
        self.data = _pattern(self.rank % 4 + 1, elements, DTYPES[dtype])
        return {}

    def go(self, *, at: float, backend: str) -> Json:
        """All-reduce the tensor at that moment."""
        group = self.groups[backend]
        time.sleep(max(0.0, at - time.monotonic()))
        dist.all_reduce(self.data, group=group)
        return {"end": time.monotonic()}

    def go_in_turn(self, *, backends: list[str], count: int) -> Json:
        """All-reduce by one backend after the other, ``count`` times each; seconds of each turn.

        For tensors so small that a request would take longer than what it asks for.
        """
        seconds = []
        for backend in backends:
            dist.all_reduce(torch.zeros(1), group=self.groups["gloo"])  # all begin together
            began = time.monotonic()
            for _ in range(count):
                dist.all_reduce(self.data, group=self.groups[backend])
            seconds.append((time.monotonic() - began) / count)
        return {"seconds": seconds}

    def check(self) -> Json:
        """Whether the tensor, summed once since it was made, is exactly what it must be."""
        factor = sum(rank % 4 + 1 for rank in range(self.size))
        expected = _pattern(factor, len(self.data), self.data.dtype)
        return {"right": torch.equal(self.data, expected)}

    def train(
        self, *, backend: str, cap_mb: int | None, layers: int, pause_s: float, batch: int = 1
    ) -> Json:
        """Make a training whose gradients go through a backend, in buckets of ``cap_mb``.

        None: as torch makes them by itself, the first a small one.
        """
        torch.manual_seed(0)
        self.batch = batch
        model = nn.Sequential(*(Layer(pause_s) for _ in range(layers)))
        self.models[backend] = DistributedDataParallel(
            model,
            process_group=self.groups[backend],
            bucket_cap_mb=cap_mb,
            init_sync=False,  # the seed is the same everywhere
        )
        return {}

    def train_alone(self, *, layers: int, pause_s: float, batch: int = 1) -> Json:
        """Make the same training for a host that has nobody to exchange with: backend ``alone``."""
        torch.manual_seed(0)
        self.batch = batch
        self.models["alone"] = nn.Sequential(*(Layer(pause_s) for _ in range(layers)))
        return {}

    def step(self, *, at: float, backend: str) -> Json:
        """One forward and backward pass, to the moment when all gradients are averaged."""
        model = self.models[backend]
        model.zero_grad(set_to_none=False)
        inputs = torch.full((self.batch, WIDTH), 1.0 + self.rank)
        time.sleep(max(0.0, at - time.monotonic()))
        model(inputs).square().mean().backward()
        return {"end": time.monotonic()}

    def agree(self) -> Json:
        """Whether both backends have left the same gradients, up to rounding."""
        gloo, ours = (self.models[backend] for backend in ("gloo", "reduction"))
        pairs = zip(gloo.parameters(), ours.parameters(), strict=True)
        return {"right": all(_close(one.grad, other.grad) for one, other in pairs)}


class Layer(nn.Module):
    """A linear layer; its backward pass takes the time that a device would."""

    def __init__(self, pause_s: float) -> None:
        """A layer of 4.2 MB."""
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.pause_s = pause_s

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sleep in the backward pass, after the gradient of the later layers."""
        output: torch.Tensor = Pause.apply(self.linear(x), self.pause_s)  # type: ignore[no-untyped-call]
        return output


class Pause(torch.autograd.Function):
    """Sleeps in the backward pass, as if a device computed instead of this processor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, pause_s: float) -> torch.Tensor:
        """Nothing."""
        ctx.pause_s = pause_s
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Sleep."""
        time.sleep(ctx.pause_s)
        return gradients[0], None


def _close(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is not None and other is not None and torch.allclose(one, other, rtol=1e-4)


def _pattern(factor: int, elements: int, dtype: torch.dtype) -> torch.Tensor:
    short = torch.arange(PATTERN).mul_(factor).to(dtype)
    return short.repeat(-(-elements // PATTERN))[:elements]
