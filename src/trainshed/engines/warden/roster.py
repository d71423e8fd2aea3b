"""Lists what the wardens of an attempt have reported, and names their replicas."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trainshed.engines.warden.arrivals import Arrival
from trainshed.engines.warden.connection import WardenConnection

if TYPE_CHECKING:
    from trainshed.engines.supervise.record.gpu_file import GpuFigures

#: The number of replicas that a sentence names.
_NAMED_MAX: Final = 5


def list_nodes(wardens: Iterable[WardenConnection]) -> tuple[str, ...]:
    """List the nodes of the wardens that have connected, each once."""
    return tuple(dict.fromkeys(warden.node for warden in wardens if warden.node))


def list_gpus(
    wardens: Iterable[tuple[str, WardenConnection]], now_s: float
) -> "Mapping[str, GpuFigures]":
    """List the newest readings of the GPUs of all wardens, by UUID, with their tasks.

    ``wardens`` have the task names of their replicas; ``now_s`` is the present time of a monotonic
    clock.
    """
    return {
        uuid: figures._replace(task=task)
        for task, warden in wardens
        for uuid, figures in warden.list_gpus(now_s).items()
    }


def list_arrivals(wardens: Iterable[WardenConnection]) -> Iterator[Arrival]:
    """Yield the addresses of wardens that have reported the ports of their replicas."""
    for warden in wardens:
        first, rendezvous = (warden.prepared or {})["ports"]
        yield Arrival(warden.host, warden.address, first, rendezvous)


def join_names(names: Sequence[str]) -> str:
    """Join names of replicas for a sentence; more than five are counted."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
