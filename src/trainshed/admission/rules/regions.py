"""Rules about regions: the region exists, has the accelerators, and has them in one zone.

These rules do not check a job without a region: a config.yaml whose region comes from a flag.
"""

import difflib
from collections.abc import Iterable, Iterator

from trainshed.admission.context import GroupDevices, RuleContext, broken
from trainshed.admission.near_names import near_region
from trainshed.admission.rules.tpus import REGIONAL_NAMES, SLICE_CORES
from trainshed.catalog.regions import Region
from trainshed.model.faults import Field, Violation
from trainshed.model.spelling import did_you_mean
from trainshed.model.texts import join_or


def region_exists(context: RuleContext) -> Iterator[Violation]:
    """The product has the region."""
    name, regions = context.spec.region, context.catalog.regions
    if name is None or name in regions:
        return
    best = near_region(name, regions) if name else None
    near = difflib.get_close_matches(name, regions, n=3, cutoff=0.4)
    near = (
        [best, *(other for other in near if other != best)]
        if best
        else _list_regions_inside(name, regions)
    )
    accepted = join_or(near) if near else join_or(regions)
    meant = did_you_mean(best)
    message = f"there is no region {name or '(empty)'}{meant}"
    yield broken(None, Field.REGION, "region-unknown", message, accepted)


def _list_regions_inside(name: str, regions: Iterable[str]) -> list[str]:
    """Return the regions of a continent or country: ``US`` and ``eu`` are locations of buckets."""
    part = {"eu": "europe"}.get(name.lower(), name.lower())
    return [region for region in regions if part and region.startswith(f"{part}-")]


def one_zone_has_all(context: RuleContext) -> Iterator[Violation]:
    """All GPU types of one job are found in one zone (zones.toml, rule)."""
    region, snapshot = context.spec.region or "", context.catalog.snapshot
    if region not in context.catalog.regions or not snapshot or not snapshot.judges(region):
        return
    types = {d.type.name: d.enum_name for _, d in context.devices()}
    covered = snapshot.types_covered.intersection(types)
    place = context.catalog.regions[region]
    missing = covered - snapshot.types_in(region)
    # region_has_all reports a type that the region is known not to have
    is_sure = not snapshot.complete or any(place.offers(name) is False for name in types)
    if not covered or not place.has_gpus or (missing and is_sure):
        return
    if not snapshot.common_zones(region, covered):
        names = join_or(types[name] for name in sorted(covered)).replace(" or ", " and ")
        message = f"no single zone of {region} has {names} ({snapshot.id})"
        accepted = _describe_regions_with(context, covered)
        yield broken(None, Field.REGION, "no-single-zone", message, accepted)


def _describe_regions_with(context: RuleContext, types: frozenset[str]) -> str:
    snapshot, regions = context.catalog.snapshot, context.catalog.regions
    names = [
        name
        for name, region in regions.items()
        if snapshot
        and snapshot.common_zones(name, types)
        and name in snapshot.regions
        and all(region.offers(t) is not False for t in types)
    ]
    return join_or(names) if names else "fewer GPU types in one job"


def region_has_all(context: RuleContext) -> Iterator[Violation]:
    """The region offers each accelerator of the job for training."""
    region = context.catalog.regions.get(context.spec.region or "")
    if region is None:
        return
    checked_names = set()
    for enum_name, name in _list_accelerators(context):
        if name not in checked_names:
            checked_names.add(name)
            yield from _check_offer(context, region, enum_name, name)


def _list_accelerators(context: RuleContext) -> Iterator[tuple[str, str]]:
    """List the job's accelerators: their enum names, and their names in the region tables."""
    for group in context.spec.groups:
        machine, device = context.machine(group), context.device(group)
        if machine and machine.tpu and machine.tpu.topologies:
            kind = machine.tpu.types[0]
            yield kind, REGIONAL_NAMES.get(kind, kind)
        elif device:
            yield device.enum_name, regional_name(device)


def regional_name(device: GroupDevices) -> str:
    """Return an accelerator's name in the region tables, which have names for slices of pods."""
    is_slice = device.type.is_tpu and device.count >= SLICE_CORES
    return f"{device.type.name} Pod" if is_slice else device.type.name


def _check_offer(
    context: RuleContext, region: Region, enum_name: str, name: str
) -> Iterator[Violation]:
    if not name.startswith("TPU") and not region.has_gpus:
        message = f"{region.name} is no GPU region of edition {context.catalog.edition.id}"
        accepted = (
            join_or(_list_regions_offering(context, name), limit=40) or "another accelerator type"
        )
        yield broken(None, Field.REGION, "region-without-gpus", message, accepted)
    elif region.offers(name) is False:
        marked = " (the region has it, but not for training)" if name in region.excluded else ""
        message = f"{region.name} does not offer {enum_name} for training{marked}"
        accepted = (
            join_or(_list_regions_offering(context, name), limit=40) or "another accelerator type"
        )
        yield broken(None, Field.REGION, "gpu-not-in-region", message, accepted)


def _list_regions_offering(context: RuleContext, name: str) -> list[str]:
    regions = context.catalog.regions.values()
    sure = [r.name for r in regions if r.has_gpus and r.offers(name)]
    return sure or [r.name for r in regions if r.has_gpus and r.offers(name) is None]
