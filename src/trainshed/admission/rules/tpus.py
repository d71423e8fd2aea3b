"""Rules about TPU machines: cores for the older, a topology for the newer (job_limits.toml)."""

from collections.abc import Iterator

from trainshed.admission.context import RuleContext, both_or_none, broken
from trainshed.catalog.editions import Product
from trainshed.catalog.machines import MachineType
from trainshed.model.faults import Field, Violation
from trainshed.model.job import Accelerator, ReplicaGroup
from trainshed.model.texts import join_or

#: Cores of one device, and the size from which a count is a slice of a pod.
DEVICE_CORES = 8
SLICE_CORES = 32

#: The names in regions.toml of the TPUs that have a topology.
REGIONAL_NAMES = {"TPU_V5_LITEPOD": "TPU v5e", "TPU_V6E": "TPU v6e", "TPU7X": "TPU7x"}


def tpu_machine(
    context: RuleContext, group: ReplicaGroup, machine: MachineType, accelerator: Accelerator | None
) -> Iterator[Violation]:
    """A TPU machine type has its own type of TPU, and cores or a topology."""
    if machine.tpu is None:
        return
    if accelerator and accelerator.type not in machine.tpu.types:
        message = f"{machine.name} has {join_or(machine.tpu.types)}, not {accelerator.type}"
        accepted = (
            "leave it out; tpuTopology shapes the machine"
            if machine.tpu.topologies
            else join_or(machine.tpu.types)
        )
        yield broken(group, Field.ACCELERATOR_TYPE, "accelerator-type-fixed", message, accepted)
    elif machine.tpu.topologies:
        yield from _check_topology(group, machine, machine.tpu.topologies)
    else:
        yield from _check_cores(context, group, machine, accelerator)


def _check_topology(
    group: ReplicaGroup, machine: MachineType, topologies: tuple[str, ...]
) -> Iterator[Violation]:
    if group.tpu_topology not in topologies:
        actual = f"not {group.tpu_topology}" if group.tpu_topology else "and none is given"
        message = f"{machine.name} is shaped by a topology, {join_or(topologies)}, {actual}"
        yield broken(group, Field.TPU_TOPOLOGY, "tpu-topology", message, join_or(topologies))


def _check_cores(
    context: RuleContext, group: ReplicaGroup, machine: MachineType, accelerator: Accelerator | None
) -> Iterator[Violation]:
    if group.tpu_topology:
        message = f"{machine.name} is sized by a count of cores and has no topology"
        yield broken(group, Field.TPU_TOPOLOGY, "tpu-topology", message, "leave it out")
    if accelerator is None:
        if context.catalog.product is Product.VERTEX:
            message = f"{machine.name} must be used with a TPU"
            accepted = "acceleratorType TPU_V2 or TPU_V3, acceleratorCount 8"
            yield broken(group, Field.ACCELERATOR, "accelerator-missing", message, accepted)
    elif not _are_valid_cores(context.catalog.product, accelerator):
        accepted = _accepted_cores(context.catalog.product, accelerator.type)
        message = f"the count of {accelerator.type} must be {accepted}, got {accelerator.count}"
        if accelerator.count is None:
            message = f"{both_or_none(context)}; {accelerator.type} has no count"
        yield broken(group, Field.ACCELERATOR_COUNT, "accelerator-count", message, accepted)


def _are_valid_cores(product: Product, accelerator: Accelerator) -> bool:
    cores = accelerator.count or 0
    if cores == DEVICE_CORES:
        return True
    if product is Product.ML or cores < SLICE_CORES:
        return False
    return accelerator.type == "TPU_V3" or cores % SLICE_CORES == 0


def _accepted_cores(product: Product, name: str | None) -> str:
    if product is Product.ML:
        return "8"
    return "8, or 32 and up" if name == "TPU_V3" else "8, or 32 and multiples of 32"
