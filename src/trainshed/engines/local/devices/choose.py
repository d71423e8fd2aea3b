"""Chooses, among free devices, those for each replica of an attempt.  Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from trainshed.engines.local.devices import fake as fake_devices
from trainshed.engines.local.devices.gpus import Device
from trainshed.engines.local.machine import accelerator_of
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.resources import ANY_GPU


def choose(
    replicas: Sequence[ReplicaPlan], free: Sequence[Device], aliases: Mapping[str, str]
) -> list[list[Device]] | None:
    """Devices for each replica, all of one type; None where not everybody can be served.

    A replica's own type comes before those that stand in for it (``Node.gpu_alias``).
    """
    pools: dict[str, list[Device]] = {}
    for device in free:
        pools.setdefault(accelerator_of(device), []).append(device)
    wants = [(r.gpu_count, _kinds(r, pools, aliases)) for r in replicas if r.gpu_count]
    kinds = _dealt(wants, {name: len(pool) for name, pool in pools.items()})
    if kinds is None:
        return None
    rest = {name: iter(pool) for name, pool in pools.items()}
    turn = iter(kinds)
    return [list(islice(rest[next(turn)], r.gpu_count)) if r.gpu_count else [] for r in replicas]


def serves(device: Device, replica: ReplicaPlan, aliases: Mapping[str, str]) -> bool:
    """Whether a replica may have this device."""
    asked, kind = replica.gpu_type, accelerator_of(device)
    if asked is None or fake_devices.is_fake(device.uuid):
        return True
    return asked == kind or aliases.get(asked) in (ANY_GPU, kind)


def asked(replicas: Sequence[ReplicaPlan]) -> str:
    """``4 NVIDIA_TESLA_T4, 1 GPU``: all that the replicas ask for, by type."""
    total: Counter[str] = Counter()
    for replica in replicas:
        total[replica.gpu_type or "GPU"] += replica.gpu_count
    return ", ".join(f"{count} {name}" for name, count in total.items() if count)


def _kinds(
    replica: ReplicaPlan, pools: Mapping[str, Sequence[Device]], aliases: Mapping[str, str]
) -> list[str]:
    serving = [name for name, pool in pools.items() if serves(pool[0], replica, aliases)]
    return sorted(serving, key=lambda name: (name != replica.gpu_type, -len(pools[name])))


def _dealt(
    wants: Sequence[tuple[int, Sequence[str]]], rooms: Mapping[str, int]
) -> list[str] | None:
    """A type for each that wants devices, so that all types suffice."""
    if not wants:
        return []
    (count, kinds), *others = wants
    for kind in kinds:
        if rooms[kind] >= count:
            rest = _dealt(others, {**rooms, kind: rooms[kind] - count})
            if rest is not None:
                return [kind, *rest]
    return None
