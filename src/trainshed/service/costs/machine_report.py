"""Adds up what single GPUs and nodes were used for, and by which users."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from trainshed.service.costs.machine_use import machine_use
from trainshed.service.costs.usage_answers import MachineHolding, MachineUse, UsedGpu
from trainshed.store.opening import Store
from trainshed.store.records.usage import MachineHolder, MachineSum

#: The number of users that an entry names.
HOLDERS_MAX: Final = 5
#: Engine, node and UUID; the last one is empty for nodes.
_Key = tuple[str, str, str]


def list_machines(
    store: Store,
    by: str,
    *,
    since_day: int,
    until_day: int,
    projects: Collection[str] | None,
) -> Sequence[MachineUse]:
    """Return the use of GPUs or nodes from a day until before another; the most idle time first.

    ``by`` is ``gpu`` or ``node``.  GPUs that were not measured, and machines without GPUs, are
    entries of their node.
    """
    days = {"since_day": since_day, "until_day": until_day}
    sums = store.machine_sums(by, **days, projects=projects)
    jobs = store.machine_jobs(by, **days, projects=projects)
    holders: Mapping[_Key, list[MachineHolder]] = defaultdict(list)
    for holder in store.machine_holders(by, **days, projects=projects):
        holders[holder.engine, holder.node, holder.gpu].append(holder)
    by_key: Mapping[_Key, list[MachineSum]] = defaultdict(list)
    for machine in sums:
        by_key[machine.engine, machine.node, machine.gpu].append(machine)
    has_engines = len({engine for engine, _, _ in by_key if engine}) > 1
    rows = [
        _add_holders(
            _machine_use(
                parts, jobs.get(key[: 3 if by == "gpu" else 2], 1), has_engines=has_engines
            ),
            holders[key],
        )
        for key, parts in by_key.items()
    ]
    return sorted(rows, key=_order)


def _order(row: MachineUse) -> tuple[float, float, float, str]:
    return (
        -row.gpu_seconds.get("idle", 0.0),
        -sum(row.gpu_seconds.values()),
        -sum(row.vcpu_seconds.values()),
        row.key,
    )


def _machine_use(parts: Sequence[MachineSum], jobs: int, *, has_engines: bool) -> MachineUse:
    machine = parts[0]
    node = f"{machine.engine}/{machine.node}" if has_engines and machine.engine else machine.node
    gpu = None
    if machine.gpu:
        index = max((part.gpu_index for part in parts if part.gpu_index is not None), default=None)
        gpu = UsedGpu(index=index, uuid=machine.gpu, type=max(part.gpu_type for part in parts))
    use = machine_use(_name(node, gpu), [part.usage for part in parts], jobs)
    return replace(use, node=node, gpu=gpu)


def _name(node: str, gpu: UsedGpu | None) -> str:
    if gpu is None:
        return node
    return f"{node}/{gpu.uuid if gpu.index is None else gpu.index}"


def _add_holders(row: MachineUse, holders: Sequence[MachineHolder]) -> MachineUse:
    first = [
        MachineHolding(
            project=holder.project,
            user=holder.user,
            seconds=round(holder.held_s, 3),
            idle_s=round(holder.idle_s, 3),
        )
        for holder in holders[:HOLDERS_MAX]
    ]
    return replace(row, holders=first, more_holders=len(holders) - len(first))
