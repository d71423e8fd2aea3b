"""Rules about accelerators on a machine: types, counts, and limits of the machine.

The rules first check the device alone (whether the type exists, is in this edition and is not
retired), then the device on its machine.  Google's table of GPUs
on N1 machines is not stored.  It follows from the maximum of vCPUs and memory for each count of
GPUs; a test compares all 85 cells.
"""

from collections.abc import Iterator

from trainshed.admission.context import RuleContext, both_or_none, broken
from trainshed.admission.near_names import near_accelerator
from trainshed.admission.rules.tpus import tpu_machine
from trainshed.catalog.accelerators import UNSPECIFIED, AcceleratorType, MachineLimit
from trainshed.catalog.machines import BundledAccelerators, MachineType
from trainshed.model.faults import Field, Violation
from trainshed.model.job import Accelerator, ReplicaGroup
from trainshed.model.roles import Dialect
from trainshed.model.spelling import did_you_mean
from trainshed.model.texts import join_or


def accelerators_fit(context: RuleContext) -> Iterator[Violation]:
    """Every group's accelerators exist and fit its machine."""
    for group in context.spec.groups:
        machine = context.machine(group)
        if group.accelerator and _is_requested(group.accelerator):
            yield from _check_requested(context, group, machine, group.accelerator)
        elif machine and machine.tpu:
            yield from tpu_machine(context, group, machine, None)
        elif machine and machine.bundled and machine.bundled_required:
            yield _refuse_missing(group, machine, machine.bundled)
        if group.tpu_topology and machine and not machine.tpu:
            message = f"{machine.name} has no TPU, so no topology"
            yield broken(group, Field.TPU_TOPOLOGY, "tpu-topology", message, "leave it out")


def _is_requested(accelerator: Accelerator) -> bool:
    """Whether ``accelerator`` requests a device: an empty one and "unspecified" do not."""
    return accelerator.type not in (None, UNSPECIFIED) or accelerator.count not in (None, 0)


def _check_requested(
    context: RuleContext, group: ReplicaGroup, machine: MachineType | None, accelerator: Accelerator
) -> Iterator[Violation]:
    if accelerator.type in (None, UNSPECIFIED):
        message = f"{both_or_none(context)}; the count is {accelerator.count}, and no type is given"
        accepted = join_or(context.catalog.enum_names())
        yield broken(group, Field.ACCELERATOR_TYPE, "accelerator-type-missing", message, accepted)
        return
    if machine and machine.is_legacy:
        yield _refuse_on_legacy(context, group, machine)
    device_type = context.catalog.accelerator(accelerator.type or "")
    if device_type is None:
        yield _refuse_unknown(context, group, accelerator.type or "")
        return
    yield from _check_edition(context, group, device_type, accelerator.type or "")
    if machine and machine.tpu:
        yield from tpu_machine(context, group, machine, accelerator)
    elif machine and machine.bundled and not machine.is_legacy:
        yield from _check_bundled(context, group, machine, machine.bundled, accelerator)
    else:
        yield from _check_attached(context, group, machine, device_type, accelerator)


def _refuse_on_legacy(context: RuleContext, group: ReplicaGroup, machine: MachineType) -> Violation:
    has = f"it has {machine.bundled.count} {machine.bundled.type}" if machine.bundled else "no GPU"
    usable = machine.equivalent in context.catalog.machines
    equivalent = f"{machine.equivalent} with an acceleratorConfig" if usable else ""
    return broken(
        group,
        Field.ACCELERATOR,
        "accelerator-on-legacy",
        f"acceleratorConfig needs a Compute Engine machine type; {machine.name} is legacy ({has})",
        f"no acceleratorConfig, or {equivalent}" if equivalent else "no acceleratorConfig",
    )


def _refuse_unknown(context: RuleContext, group: ReplicaGroup, name: str) -> Violation:
    names = context.catalog.enum_names()
    product_names = {n for a in context.catalog.accelerators for n in a.enum_by_product.values()}
    near = near_accelerator(name, (*names, *sorted(product_names.difference(names))))
    message = f"there is no accelerator type {name}"
    if near in names:
        message += did_you_mean(near)
    elif near:
        message += f" in edition {context.catalog.edition.id}; {near} belongs to the other product"
    accepted = join_or(names, limit=30)
    return broken(group, Field.ACCELERATOR_TYPE, "unknown-accelerator", message, accepted)


def _check_edition(
    context: RuleContext, group: ReplicaGroup, device_type: AcceleratorType, name: str
) -> Iterator[Violation]:
    catalog = context.catalog
    if not catalog.in_edition(device_type):
        message = f"edition {catalog.edition.id} does not have {name}"
        available = (a for a in catalog.accelerators if catalog.in_edition(a))
        accepted = join_or(n for a in available if (n := a.enum_by_product.get(catalog.product)))
        yield broken(group, Field.ACCELERATOR_TYPE, "not-in-that-version", message, accepted)
    elif catalog.retired(device_type, context.today):
        message = f"{name} reached its end of support by {device_type.end_of_support}"
        current = (a for a in catalog.accelerators if not catalog.retired(a, context.today))
        names = (a.enum_by_product.get(catalog.product) for a in current if a.caps)
        accepted = join_or(n for n in names if n) + " attach to N1 machines"
        yield broken(group, Field.ACCELERATOR_TYPE, "accelerator-retired", message, accepted)


def _refuse_missing(
    group: ReplicaGroup, machine: MachineType, bundled: BundledAccelerators
) -> Violation:
    return broken(
        group,
        Field.ACCELERATOR,
        "accelerator-missing",
        f"{machine.name} must be used with its {bundled.count} {bundled.type}",
        f"type {bundled.type}, count {bundled.count}",
    )


def _check_bundled(
    context: RuleContext,
    group: ReplicaGroup,
    machine: MachineType,
    bundled: BundledAccelerators,
    accelerator: Accelerator,
) -> Iterator[Violation]:
    """Check that a machine with its own accelerators has exactly those (accelerators.toml)."""
    exactly = f"type {bundled.type}, count {bundled.count}"
    if accelerator.type != bundled.type:
        message = f"{machine.name} has {bundled.type}, not {accelerator.type}"
        yield broken(group, Field.ACCELERATOR_TYPE, "accelerator-type-fixed", message, exactly)
    elif not accelerator.count:
        message = f"{both_or_none(context)}; {accelerator.type} has no count"
        yield broken(group, Field.ACCELERATOR_COUNT, "accelerator-count", message, exactly)
    elif accelerator.count != bundled.count:
        count = f"exactly {bundled.count} {bundled.type}, not {accelerator.count}"
        message = f"{machine.name} has {count}"
        yield broken(group, Field.ACCELERATOR_COUNT, "accelerator-count-fixed", message, exactly)


def _check_attached(
    context: RuleContext,
    group: ReplicaGroup,
    machine: MachineType | None,
    device_type: AcceleratorType,
    accelerator: Accelerator,
) -> Iterator[Violation]:
    if machine and not machine.is_legacy and device_type.family not in (machine.family, "any"):
        yield _refuse_attachment(context, group, machine, device_type, accelerator)
    elif not _allows_count(device_type, accelerator.count):
        yield _refuse_count(context, group, machine, device_type, accelerator)
    elif machine and not machine.is_legacy:
        yield from _check_capacity(context, group, machine, device_type, accelerator)


def _allows_count(device_type: AcceleratorType, count: int | None) -> bool:
    """Whether a count is allowed: any from 1 if the catalog has no counts (slices of TPU pods)."""
    if count is None or count < 1:
        return False
    return not device_type.counts or count in device_type.counts


def _refuse_attachment(
    context: RuleContext,
    group: ReplicaGroup,
    machine: MachineType,
    device_type: AcceleratorType,
    accelerator: Accelerator,
) -> Violation:
    hosts = [
        m.name for m in context.catalog.machines.values() if _can_host(m, device_type, accelerator)
    ]
    return broken(
        group,
        Field.ACCELERATOR_TYPE,
        "accelerator-not-attachable",
        f"{accelerator.type} cannot be attached to {machine.name}",
        f"{accelerator.type} goes with {join_or(hosts)}" if hosts else "another accelerator type",
    )


def _can_host(machine: MachineType, device_type: AcceleratorType, accelerator: Accelerator) -> bool:
    if machine.bundled:
        return machine.bundled.type == accelerator.type and not machine.is_legacy
    if machine.tpu:
        return accelerator.type in machine.tpu.types
    return device_type.family in (machine.family, "any")


def _refuse_count(
    context: RuleContext,
    group: ReplicaGroup,
    machine: MachineType | None,
    device_type: AcceleratorType,
    accelerator: Accelerator,
) -> Violation:
    fitting = context.catalog.fitting_counts(machine, device_type) if machine else ()
    is_ml = context.submitted_spec.dialect is Dialect.ML_V1
    if accelerator.count is None or (accelerator.count == 0 and not is_ml):
        message = f"{both_or_none(context)}; {accelerator.type} has no count"
    elif accelerator.count < 1:
        message = f"the accelerator count must be a whole number from 1, got {accelerator.count}"
    else:
        counts = join_or(device_type.counts)
        message = f"the count of {accelerator.type} must be {counts}, got {accelerator.count}"
    if machine and not fitting and not machine.is_legacy:
        accepted = _list_fitting_machines(context, device_type)
    else:
        accepted = join_or(fitting or device_type.counts) or "1 or more"
    return broken(group, Field.ACCELERATOR_COUNT, "accelerator-count", message, accepted)


def _check_capacity(
    context: RuleContext,
    group: ReplicaGroup,
    machine: MachineType,
    device_type: AcceleratorType,
    accelerator: Accelerator,
) -> Iterator[Violation]:
    """Check the machine against the maximum of vCPU and memory that its devices allow."""
    cap = device_type.cap(accelerator.count or 0)
    if cap is None:
        return
    counts = context.catalog.fitting_counts(machine, device_type)
    for rule, shortage in _list_shortages(machine, cap):
        if counts:
            message = f"{machine.name} needs {join_or(counts)} {accelerator.type}; "
        else:
            message = f"no count of {accelerator.type} fits {machine.name}; "
        message += f"{cap.count} carry at most {shortage}"
        accepted = (
            join_or(counts) if counts else _list_fitting_machines(context, device_type, cap.count)
        )
        yield broken(group, Field.ACCELERATOR_COUNT, rule, message, accepted)


def _list_shortages(machine: MachineType, cap: MachineLimit) -> Iterator[tuple[str, str]]:
    if machine.vcpus is not None and machine.vcpus > cap.vcpus_max:
        yield "not-enough-vcpus", f"{cap.vcpus_max} vCPU of its {machine.vcpus}"
    if machine.memory_gb is not None and machine.memory_gb > cap.memory_gb_max:
        yield "not-enough-memory", f"{cap.memory_gb_max:g} GB of its {machine.memory_gb:g}"


def _list_fitting_machines(
    context: RuleContext, device_type: AcceleratorType, count: int | None = None
) -> str:
    """Return a text that lists the machine types with which a count fits; any count if None."""
    catalog = context.catalog
    of_family = [m for m in catalog.machines.values() if m.family == device_type.family]
    counts = {m.name: catalog.fitting_counts(m, device_type) for m in of_family}
    if count is None:
        return f"they fit {join_or(name for name, fitting in counts.items() if fitting)}"
    names = (name for name, fitting in counts.items() if count in fitting)
    return f"{count} of them fit {join_or(names)}"
