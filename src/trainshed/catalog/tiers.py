"""Scale tiers: names for clusters of fixed size."""

from collections.abc import Mapping
from functools import cache

from trainshed.catalog.rows import Row, rows
from trainshed.model.job import Accelerator, ReplicaGroup, ScaleTier
from trainshed.model.roles import Role

_SHAPE = (
    (Role.PRIMARY, "master", None),
    (Role.WORKER, "worker", "workers"),
    (Role.PARAMETER_SERVER, "parameter_server", "parameter_servers"),
)


@cache
def tier_groups(*, legacy: bool) -> Mapping[ScaleTier, tuple[ReplicaGroup, ...]]:
    """Return the groups of all tiers except CUSTOM, with legacy or Compute Engine names."""
    return {
        ScaleTier(row["name"]): _groups(row, legacy=legacy)
        for row in rows("scale_tiers", "scale_tier")
        if not row.get("custom")
    }


def _groups(row: Row, *, legacy: bool) -> tuple[ReplicaGroup, ...]:
    groups = []
    for role, key, count_key in _SHAPE:
        count = row[count_key] if count_key else 1
        if count:
            machine = row.get(f"{key}_legacy", row[key]) if legacy else row[key]
            groups.append(ReplicaGroup(role=role, count=count, machine_type=machine))
    if row["gpus"] and not legacy:
        device = Accelerator(type=row["gpu_type"], count=row["gpus"])
        groups[0] = ReplicaGroup(role=Role.PRIMARY, machine_type=row["master"], accelerator=device)
    if "tpu" in row:
        device = Accelerator(type="TPU_V2", count=8)
        groups.append(ReplicaGroup(role=Role.WORKER, machine_type="cloud_tpu", accelerator=device))
    return tuple(groups)
