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
#: Of more days, users are not listed: a year of many jobs has hundreds of users for each GPU.
HOLDER_DAYS_MAX: Final = 62
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
    is_by_gpu = by == "gpu"
    by_key: Mapping[_Key, list[MachineSum]] = defaultdict(list)
    for machine in store.machine_sums(**days, projects=projects):
        by_key[machine.engine, machine.node, machine.gpu if is_by_gpu else ""].append(machine)
    jobs = store.machine_jobs(by, **days, projects=projects)
    holders: Mapping[_Key, list[MachineHolder]] | None = None
    if until_day - since_day <= HOLDER_DAYS_MAX:
        holders = defaultdict(list)
        for holder in store.machine_holders(by, **days, projects=projects):
            holders[holder.engine, holder.node, holder.gpu].append(holder)
    has_engines = len({engine for engine, _, _ in by_key if engine}) > 1
    rows = []
    for key, parts in by_key.items():
        count = jobs.get(key if is_by_gpu else key[:2], 1)
        use = machine_use(
            _name_node(key, has_engines=has_engines), [part.usage for part in parts], count
        )
        use = _name_gpu(use, parts) if key[2] else replace(use, node=use.key)
        rows.append(use if holders is None else _add_holders(use, holders[key]))
    return sorted(rows, key=_order)


def _order(row: MachineUse) -> tuple[float, float, float, str]:
    return (
        -row.gpu_seconds.get("idle", 0.0),
        -sum(row.gpu_seconds.values()),
        -sum(row.vcpu_seconds.values()),
        row.key,
    )


def _name_node(key: _Key, *, has_engines: bool) -> str:
    engine, node, _ = key
    return f"{engine}/{node}" if has_engines and engine else node


def _name_gpu(use: MachineUse, parts: Sequence[MachineSum]) -> MachineUse:
    """Return the use of a node's GPU with its number and type."""
    index = max((part.gpu_index for part in parts if part.gpu_index is not None), default=None)
    gpu = UsedGpu(index=index, uuid=parts[0].gpu, type=max(part.gpu_type for part in parts))
    name = f"{use.key}/{gpu.uuid if index is None else index}"
    return replace(use, key=name, node=use.key, gpu=gpu)


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
