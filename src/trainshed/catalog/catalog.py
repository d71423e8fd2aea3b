"""The facts of one edition, with a user's own additions, for rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from trainshed.catalog.accelerators import AcceleratorType
from trainshed.catalog.editions import Edition, Product
from trainshed.catalog.machines import MachineType, egress_gbps
from trainshed.catalog.quotas import DefaultQuotas
from trainshed.catalog.regions import Region, ZoneSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All names that jobs of one edition may request.

    ``machines`` are those that the edition accepts; ``known_machines`` also those that it refuses,
    so that a refusal can name the reason.
    """

    edition: Edition
    machines: Mapping[str, MachineType]
    known_machines: Mapping[str, MachineType]
    accelerators: tuple[AcceleratorType, ...]
    regions: Mapping[str, Region]
    snapshot: ZoneSnapshot | None
    quotas: DefaultQuotas
    _by_enum_name: Mapping[str, AcceleratorType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index accelerators by name: rules look them up often."""
        accelerators = {a.enum_by_product.get(self.product): a for a in reversed(self.accelerators)}
        by_name = {name: accelerator for name, accelerator in accelerators.items() if name}
        object.__setattr__(self, "_by_enum_name", by_name)

    @property
    def product(self) -> Product:
        """The product that the edition describes."""
        return self.edition.product

    def accelerator(self, enum_name: str) -> AcceleratorType | None:
        """Return the accelerator with this enum name of the product; None if there is none."""
        return self._by_enum_name.get(enum_name)

    def enum_names(self) -> tuple[str, ...]:
        """Return the enum names of the product's accelerators."""
        names = (a.enum_by_product.get(self.product) for a in self.accelerators)
        return tuple(name for name in names if name)

    def in_edition(self, accelerator: AcceleratorType) -> bool:
        """Whether the edition has the accelerator.

        Google's page of that date lists it or lists none at all, or an overlay adds it.
        """
        listed = self.edition.accelerators
        is_overlay = "overlay" in accelerator.sources
        return is_overlay or listed is None or accelerator.name in listed

    def retired(self, accelerator: AcceleratorType, today: date) -> bool:
        """Whether the accelerator's support has ended (a Vertex rule: ml jobs are historical)."""
        ended = accelerator.end_of_support
        return self.product is Product.VERTEX and ended is not None and today >= ended

    def fitting_counts(self, machine: MachineType, accelerator: AcceleratorType) -> tuple[int, ...]:
        """Return the counts of an accelerator that a machine type can have; empty for none."""
        return fitting_counts(machine, accelerator, self.product)

    def egress_gbps(self, machine: MachineType, device: str | None, count: int) -> float | None:
        """Return the most that a machine with these devices can send, in Gbit/s; None if unknown.

        ``device`` is an enum name.
        """
        accelerator = self.accelerator(device) if device else None
        return egress_gbps(machine, accelerator.name if accelerator else None, count)


def fitting_counts(
    machine: MachineType, accelerator: AcceleratorType, product: Product
) -> tuple[int, ...]:
    """Return the counts of an accelerator that a machine type can have, without a catalog."""
    if machine.bundled:
        enum_name = accelerator.enum_by_product.get(product)
        return (machine.bundled.count,) if machine.bundled.type == enum_name else ()
    if machine.is_legacy or accelerator.family not in (machine.family, "any"):
        return ()
    return tuple(n for n in accelerator.counts if carries(accelerator, n, machine))


def carries(accelerator: AcceleratorType, count: int, machine: MachineType) -> bool:
    """Whether a machine with ``count`` devices may have this machine type's vCPUs and memory."""
    cap = accelerator.cap(count)
    if cap is None or machine.vcpus is None or machine.memory_gb is None:
        return True
    return machine.vcpus <= cap.vcpus_max and machine.memory_gb <= cap.memory_gb_max
