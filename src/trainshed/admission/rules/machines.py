"""Rules about one machine: its type, its accelerators, its disk."""

import difflib
from collections.abc import Iterator

from trainshed.admission.context import RuleContext, broken
from trainshed.admission.near_names import known_accelerator, near_machine_type
from trainshed.catalog.editions import Product
from trainshed.catalog.machines import MachineType
from trainshed.catalog.rows import Row, rows
from trainshed.model.faults import Field, Violation
from trainshed.model.job import ReplicaGroup, ScaleTier
from trainshed.model.roles import Dialect, Role
from trainshed.model.spelling import did_you_mean
from trainshed.model.texts import count_noun, join_or


def machine_types_exist(context: RuleContext) -> Iterator[Violation]:
    """Every group names a machine type that the edition accepts."""
    for group in () if context.is_tier else context.spec.groups:
        name = group.machine_type
        if not name:
            yield from _check_missing_type(context, group)
        elif name not in context.catalog.machines:
            yield _refuse_type(context, group, name)


def _check_missing_type(context: RuleContext, group: ReplicaGroup) -> Iterator[Violation]:
    if context.submitted_spec.dialect is Dialect.ML_V1 and group.role is Role.PRIMARY:
        return  # has_a_primary reports this
    count = count_noun(group.count, "replica")
    message = f"{count} requested without a machine type"
    yield broken(group, Field.MACHINE_TYPE, "machine-type-missing", message, "n1-standard-4, say")


def _refuse_type(context: RuleContext, group: ReplicaGroup, name: str) -> Violation:
    """Return the violation: the type is unknown, of another product, or not in the edition."""
    catalog = context.catalog
    machine = catalog.known_machines.get(name)
    edition = catalog.edition.id
    if machine and catalog.product.value in machine.products:
        message = f"{name} is not in edition {edition}"
        rule = "not-in-that-version"
    elif machine:
        message = f"{name} exists, but training jobs of edition {edition} cannot use it"
        rule = "unknown-machine-type"
    else:
        near = near_machine_type(name, catalog.machines)
        hint = _explain_other_kind(context, name) or did_you_mean(near)
        message = f"there is no machine type {name}{hint}"
        rule = "unknown-machine-type"
    return broken(group, Field.MACHINE_TYPE, rule, message, _suggest_type(context, name, machine))


def _explain_other_kind(context: RuleContext, name: str) -> str:
    """Explain that a name is that of a scale tier or an accelerator, not of a machine type."""
    tier = name.upper().replace("-", "_")
    if context.submitted_spec.dialect is Dialect.ML_V1 and tier in ScaleTier.__members__:
        return f"; {tier} is a scale tier"
    accelerator = known_accelerator(name, context.catalog.enum_names())
    return f"; {accelerator} is an accelerator, which has a field of its own" if accelerator else ""


def _suggest_type(context: RuleContext, name: str, machine: MachineType | None) -> str:
    catalog = context.catalog
    if machine and machine.equivalent in catalog.machines:
        return f"{machine.equivalent}, its equivalent"
    same_family = [m for m in catalog.machines if m.rsplit("-", 1)[0] == name.rsplit("-", 1)[0]]
    if same_family:
        return join_or(same_family)
    near = difflib.get_close_matches(name, catalog.machines, n=3, cutoff=0.5)
    if best := near_machine_type(name, catalog.machines):
        near = [best, *(other for other in near if other != best)]
    return join_or(near) if near else "a type of `trainshed catalog machine-types list`"


def disks_fit(context: RuleContext) -> Iterator[Violation]:
    """Boot disks have a size and a type that the product accepts (job_limits.toml)."""
    for group in context.spec.groups:
        disk = group.disk
        if disk and disk.size_gb is not None:
            yield from _check_disk_size(context, group, disk.size_gb)
        if disk and disk.type:
            yield from _check_disk_type(context, group, disk.type)


def _check_disk_size(
    context: RuleContext, group: ReplicaGroup, size_gb: int
) -> Iterator[Violation]:
    limit = _read_limit("diskSpec.bootDiskSizeGb")
    least, most = limit["min"], limit["max"]
    if context.catalog.product is Product.ML:
        least = 1  # the documents of AI Platform have no minimum
    if not least <= size_gb <= most:
        message = f"a boot disk must have {least} to {most} GB, got {size_gb}"
        yield broken(group, Field.DISK_SIZE, "boot-disk-size", message, f"{least} to {most}")


def _check_disk_type(
    context: RuleContext, group: ReplicaGroup, disk_type: str
) -> Iterator[Violation]:
    types = _read_limit("diskSpec.bootDiskType")["values"]
    if context.catalog.product is Product.ML:
        types = [t for t in types if t.startswith("pd-")]
    if disk_type not in types:
        message = f"{disk_type} is not a boot disk type"
        yield broken(group, Field.DISK_TYPE, "boot-disk-type", message, join_or(types))


def _read_limit(field: str) -> Row:
    return next(row for row in rows("job_limits", "limit") if row["field"] == field)
