"""Checks whether a valid job is within the default quota, separately from the rules.

A job over quota is valid: it waits, or its owner requests more quota.
"""

import math
from collections import Counter
from collections.abc import Iterator

from trainshed.admission.context import RuleContext, broken
from trainshed.admission.rules.regions import regional_name
from trainshed.admission.rules.tpus import REGIONAL_NAMES
from trainshed.catalog.editions import Product
from trainshed.catalog.quotas import DefaultQuota
from trainshed.model.faults import Field, Violation


def check(context: RuleContext) -> tuple[Violation, ...]:
    """Return the amounts by which the job exceeds the default quota of its project and region."""
    quotas = context.catalog.quotas
    violations: list[Violation] = []
    for name, used in _devices(context).items():
        quota = quotas.devices.get(name) or quotas.tpus.get(name)
        violations += _check_quota(context, quota, used, name)
    for quota, used in _vcpus(context):
        violations += _check_quota(context, quota, used, "vCPU")
    return tuple(violations)


def _devices(context: RuleContext) -> Counter[str]:
    used: Counter[str] = Counter()
    for group, device in context.devices():
        used[regional_name(device)] += device.count * group.count
    for group in context.spec.groups:
        machine = context.machine(group)
        if machine and machine.tpu and group.tpu_topology in machine.tpu.topologies:
            chips = math.prod(int(side) for side in (group.tpu_topology or "").split("x"))
            kind = machine.tpu.types[0]
            used[REGIONAL_NAMES.get(kind, kind)] += chips * group.count
    return used


def _vcpus(context: RuleContext) -> Iterator[tuple[DefaultQuota, int]]:
    """Yield each vCPU quota with the vCPUs that the job needs of it.

    Some quotas cover two families (N1 and E2).
    """
    used: Counter[str] = Counter()
    titles = {}
    for group in context.spec.groups:
        machine = context.machine(group)
        quota = context.catalog.quotas.families.get(machine.family) if machine else None
        if machine and quota and machine.vcpus:
            titles[quota.title] = quota
            used[quota.title] += machine.vcpus * group.count
    yield from ((quota, used[title]) for title, quota in titles.items())


def _check_quota(
    context: RuleContext, quota: DefaultQuota | None, used: int, resource: str
) -> Iterator[Violation]:
    region = context.spec.region
    limit = quota.limit(region) if quota else None
    if quota and limit is not None and used > limit:
        where = "in the project" if context.catalog.product is Product.ML else f"in {region}"
        message = f"{used} {resource} exceed the default of {limit:g} {where}: {quota.title!r}"
        accepted = f"at most {limit:g}, or a raise of the quota {quota.title!r}"
        yield broken(None, Field.REGION, "quota", message, accepted)
