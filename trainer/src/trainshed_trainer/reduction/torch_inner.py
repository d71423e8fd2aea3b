"""The plain group inside of a reduction group, and the messages between its ranks.

It performs every operation except large all-reduces: with gloo, and with nccl for CUDA if there is
one.  Messages go through gloo and not through the store, because a store that outlives a group,
such as torchrun's, still has the values of the last group.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterator, NamedTuple, Sequence, Tuple

import torch
from torch._C._distributed_c10d import (
    AllreduceOptions,
    PrefixStore,
    ProcessGroup,
    ProcessGroupGloo,
    ReduceOp,
    Store,
)
from torch.distributed import is_nccl_available

from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError

#: Longest document that one rank may send to the others, in bytes of JSON.
TEXT_MAX = 64 << 10

BackendType = ProcessGroup.BackendType
Registered = Tuple[torch.device, BackendType, Any]


class BackendChoice(NamedTuple):
    """The backend that a trainer asked for: nccl for CUDA, or gloo alone."""

    nccl: bool
    options: Any


ANY_BACKEND = BackendChoice(nccl=True, options=None)


class Inner(NamedTuple):
    """A plain group, its backends by device, and the gloo backend.

    ``crowded``: ranks share a GPU, so nccl cannot be used.
    """

    group: ProcessGroup
    backends: tuple[Registered, ...]
    gloo: Any
    crowded: bool

    def uses_gloo(self, device: torch.device) -> bool:
        """Return whether gloo is the backend for a device."""
        return any(
            served.type == device.type and backend is self.gloo
            for served, _, backend in self.backends
        )


def inner_group(
    store: Store, rank: int, world: int, timeout: timedelta, wish: BackendChoice = ANY_BACKEND
) -> Inner:
    """Connect ``world`` ranks through ``store``; nccl is used for CUDA if possible.

    nccl connects at its first use, because a rank's device is known only then.  It fails then if
    two ranks share a GPU; if the ranks' GPUs show this before, gloo is used for CUDA.
    """
    gloo = gloo_backend(store, rank, world, timeout)
    crowded = wish.nccl and share_a_gpu(RankChannel(gloo, rank, world).gather(find_only_gpu()))
    backends: list[Registered] = [(torch.device("cpu"), BackendType.GLOO, gloo)]
    if torch.cuda.is_available():
        cuda, kind = gloo, BackendType.GLOO
        if wish.nccl and not crowded and is_nccl_available():
            cuda, kind = nccl_backend(store, rank, world, timeout, wish.options), BackendType.NCCL
        backends.append((torch.device("cuda"), kind, cuda))
    group = ProcessGroup(store, rank, world)
    register(group, backends)
    return Inner(group, tuple(backends), gloo, crowded)


def find_only_gpu() -> str | None:
    """Return the UUID of this rank's GPU; ``None`` if it can use no GPU or several."""
    if not torch.cuda.is_available() or torch.cuda.device_count() != 1:
        return None
    uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)  # since torch 2.4
    return str(uuid) if uuid else None


def share_a_gpu(uuids: Sequence[str | None]) -> bool:
    """Return whether two ranks have the same GPU, from :func:`find_only_gpu` of every rank."""
    present = [uuid for uuid in uuids if uuid]
    return len(set(present)) < len(present)


def gloo_backend(store: Store, rank: int, world: int, timeout: timedelta) -> Any:
    """Create a gloo backend as torch does."""
    gloo = ProcessGroupGloo(PrefixStore("gloo", store), rank, world, timeout)
    gloo._set_sequence_number_for_group()  # noqa: SLF001 - as torch does
    return gloo


def nccl_backend(
    store: Store, rank: int, world: int, timeout: timedelta, options: Any = None
) -> Any:
    """Create an nccl backend as torch does; other types of ``options`` are ignored."""
    from torch._C._distributed_c10d import (  # noqa: PLC0415 - not in every torch
        ProcessGroupNCCL,
    )

    is_of_nccl = isinstance(options, ProcessGroupNCCL.Options)
    nccl_options = options if is_of_nccl else ProcessGroupNCCL.Options()
    nccl_options._timeout = timeout  # noqa: SLF001 - as torch sets it
    nccl = ProcessGroupNCCL(PrefixStore("nccl", store), rank, world, nccl_options)
    nccl._set_sequence_number_for_group()  # noqa: SLF001 - as torch does
    return nccl


def register(group: ProcessGroup, backends: Sequence[Registered]) -> None:
    """Let ``group`` use ``backends``; the last one is its default, as nccl is for torch."""
    group._set_default_backend(backends[-1][1])  # noqa: SLF001 - torch's hook for backends
    for device, kind, backend in backends:
        group._register_backend(device, kind, backend)  # noqa: SLF001 - the same


class RankChannel:
    """Messages between the ranks of a group; every call is made by all ranks."""

    def __init__(self, gloo: Any, rank: int, world: int) -> None:
        """Use ``gloo``, a backend that connects ``world`` ranks."""
        self.rank = rank
        self.world = world
        self._gloo = gloo

    def gather(self, value: Any) -> list[Any]:
        """Exchange a value of JSON types, at most ``TEXT_MAX`` bytes; return all ranks' values."""
        text = json.dumps(value).encode()
        longest = int(self.maxima([len(text)])[0])
        if longest > TEXT_MAX:
            raise ReductionError(
                f"a message between ranks must have at most {TEXT_MAX} bytes, got {longest}"
            )
        sent = torch.frombuffer(bytearray(text.ljust(longest)), dtype=torch.uint8)
        buffers = [torch.empty_like(sent) for _ in range(self.world)]
        with as_reduction_error():
            self._gloo.allgather([buffers], [sent]).wait()
        return [json.loads(bytes(buffer.tolist())) for buffer in buffers]

    def maxima(self, values: Sequence[float]) -> list[float]:
        """Return the maximum over all ranks for each element of ``values``."""
        options = AllreduceOptions()
        options.reduceOp = ReduceOp.MAX  # type: ignore[assignment]
        tensor = torch.tensor(values, dtype=torch.float64)
        with as_reduction_error():
            self._gloo.allreduce([tensor], options).wait()
        return [float(value) for value in tensor.tolist()]

    def together(self, action: Callable[[], Any]) -> list[Any]:
        """Run ``action`` on every rank and return all results; an error is raised on all ranks."""
        error: ReductionError | None = None
        try:
            answer = {"value": action()}
        except (RuntimeError, OSError, ValueError) as caught:
            error = caught if isinstance(caught, ReductionError) else ReductionError(str(caught))
            answer = {"error": str(error)[:1000], "blame": error.blame}
        try:
            answers = self.gather(answer)
        except ReductionError as lost:
            raise error or lost from None
        if error:
            raise error
        for rank, reply in enumerate(answers):
            if "error" in reply:
                raise _error_of_rank(rank, reply)
        return [reply["value"] for reply in answers]

    def close(self) -> None:
        """Shut the backend down; all messages must have been sent."""
        self._gloo.shutdown()


@contextmanager
def as_reduction_error(culprit: Culprit | None = None) -> Iterator[None]:
    """Convert errors of the inner group to :class:`ReductionError`."""
    try:
        yield
    except ReductionError:
        raise
    except RuntimeError as error:
        raise ReductionError(f"the inner group has failed: {error}", blame=culprit) from error


def failure_of(action: Callable[[], None]) -> ReductionError | None:
    """Run an action and return its error, without the frames, which would keep objects alive."""
    try:
        action()
    except ReductionError as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    return None


def _error_of_rank(rank: int, answer: dict[str, Any]) -> ReductionError:
    blame = answer.get("blame")
    culprit = Culprit(Kind(blame[0]), blame[1]) if blame else Culprit(Kind.WORKER, rank)
    return ReductionError(f"worker {rank}: {answer['error']}", blame=culprit)
