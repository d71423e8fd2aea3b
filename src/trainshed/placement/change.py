"""Finds the smallest single change of a request that would admit it.

Changes are tried in the usual order of preference: fewer replicas of a group (never the primary),
fewer GPUs on each machine, another region, another GPU type.  The planner itself checks each
change.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from trainshed.catalog.accelerators import AcceleratorType, known_accelerators
from trainshed.model.explanation import Change
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Role
from trainshed.placement.messages import PLURAL, gpus
from trainshed.placement.topology import Topology

#: Returns whether a changed demand would be admitted now.
Admits = Callable[[JobDemand], bool]

#: The GPU counts to try for a type that an administrator added: the catalog does not know it.
_COUNTS = (1, 2, 4, 8, 16)


def admitting_change(
    demand: JobDemand, topology: Topology, admits: Admits, prefix: str
) -> Change | None:
    """Return the smallest change of the first kind that admits the job; None if none does.

    ``prefix`` begins the message: ``would start now``.
    """
    search = _ChangeSearch(demand, topology, admits, prefix)
    for kind in (search.replicas, search.gpus, search.regions, search.types):
        change = next(kind(), None)
        if change is not None:
            return change
    return None


def valid_counts(gpu_type: str, replica: Demand) -> tuple[int, ...]:
    """Return the GPU counts that the replica's machine can have, largest first.

    Return none for a GPU type that belongs to a machine type: another count needs another machine.
    """
    accelerator = _find_accelerator(gpu_type)
    if accelerator is None:
        return _COUNTS[::-1]
    if accelerator.family is None:
        return ()
    fitting = (n for n in accelerator.counts if n in _COUNTS and _carries(accelerator, n, replica))
    return tuple(sorted(fitting, reverse=True))


@dataclass(frozen=True, slots=True)
class _ChangeSearch:
    """Searches for changes that admit the job; each public method yields one kind of them."""

    demand: JobDemand
    topology: Topology
    admits: Admits
    prefix: str

    def replicas(self) -> Iterator[Change]:
        for group in self.demand.groups:
            if group.role is Role.PRIMARY:
                continue
            count = self._find_largest_count(group)
            if count:
                yield Change(
                    field="replica_count",
                    role=group.role.value,
                    asked=str(group.count),
                    accepted=str(count),
                    text=f"{self.prefix} with {count} instead of {group.count} "
                    f"{PLURAL[group.role]}",
                )

    def gpus(self) -> Iterator[Change]:
        for group in self.demand.groups:
            replica = group.each
            for count in valid_counts(replica.gpu_type or "", replica):
                fewer = replace(group, each=replace(replica, gpu_count=count))
                if count < replica.gpu_count and self._admits(fewer):
                    yield Change(
                        field="accelerator_count",
                        role=group.role.value,
                        asked=str(replica.gpu_count),
                        accepted=str(count),
                        text=f"{self.prefix} with {count} instead of {gpus(replica)}"
                        f"{self._group_clause(group)}",
                    )

    def regions(self) -> Iterator[Change]:
        requested = self.demand.region
        if not requested:
            return
        for region in sorted(self.topology.regions - {requested}):
            if self.admits(replace(self.demand, region=region)):
                yield Change(
                    field="region",
                    asked=requested,
                    accepted=region,
                    text=f"{self.prefix} in {region} instead of {requested}",
                )

    def types(self) -> Iterator[Change]:
        for group in self.demand.groups:
            gpu_type = group.each.gpu_type
            for name in self._types_for(group.each) if gpu_type else ():
                other = replace(group, each=replace(group.each, gpu_type=name))
                if gpu_type and self._admits(other):
                    yield Change(
                        field="accelerator_type",
                        role=group.role.value,
                        asked=gpu_type,
                        accepted=name,
                        text=f"{self.prefix} with {name} instead of {gpu_type}"
                        f"{self._group_clause(group)}",
                    )

    def _types_for(self, demand: Demand) -> list[str]:
        """Return the fleet's GPU types in the catalog that the same machine can have."""
        if not demand.gpu_count or not valid_counts(demand.gpu_type or "", demand):
            return []
        offered = self.topology.gpu_names - {demand.gpu_type or ""}
        cataloged = (name for name in offered if _find_accelerator(name))
        fitting = (name for name in cataloged if demand.gpu_count in valid_counts(name, demand))
        return sorted(fitting, key=lambda name: (_is_retired(name), name))

    def _find_largest_count(self, group: GroupDemand) -> int:
        """Return the largest count below the group's that is admitted; 0 if none is.

        Fewer replicas never need more resources, so a binary search finds the count.
        """
        least, most = 0, group.count - 1
        while least < most:
            middle = (least + most + 1) // 2
            if self._admits(replace(group, count=middle)):
                least = middle
            else:
                most = middle - 1
        return least

    def _admits(self, changed: GroupDemand) -> bool:
        groups = tuple(changed if g.role is changed.role else g for g in self.demand.groups)
        return self.admits(replace(self.demand, groups=groups))

    def _group_clause(self, group: GroupDemand) -> str:
        """Name the group, if more than one has GPUs."""
        if sum(bool(other.each.gpu_count) for other in self.demand.groups) < 2:  # noqa: PLR2004 - one
            return ""
        if group.count > 1:
            return f" on each of the {PLURAL[group.role]}"
        return f" on the {group.role.value.replace('_', ' ')}"


def _find_accelerator(gpu_type: str) -> AcceleratorType | None:
    matches = (a for a in known_accelerators() if gpu_type in a.enum_by_product.values())
    return next(matches, None)


def _is_retired(gpu_type: str) -> bool:
    """Whether Google has retired a type; the search proposes other types first."""
    accelerator = _find_accelerator(gpu_type)
    return accelerator is not None and accelerator.end_of_support is not None


def _carries(accelerator: AcceleratorType, count: int, replica: Demand) -> bool:
    cap = accelerator.cap(count)
    return cap is None or (
        replica.vcpus <= cap.vcpus_max and replica.memory_gb <= cap.memory_gb_max
    )
