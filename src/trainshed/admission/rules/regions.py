"""Rules about places: the region exists, has the accelerators, and has them in one zone (R8).

A job without a region (a config.yaml whose region comes by flag) is not judged here.
"""

import difflib
from collections.abc import Iterator

from trainshed.admission.question import Device, Question, broken, listing
from trainshed.admission.rules.tpus import SLICE_CORES
from trainshed.catalog.regions import Region
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.job import ReplicaGroup


def region_exists(question: Question) -> Iterator[Violation]:
    """The region is one that the product has."""
    name, regions = question.spec.region, question.catalog.regions
    if name is None or name in regions:
        return
    near = difflib.get_close_matches(name, regions, n=3, cutoff=0.4)
    accepted = listing(near) if near else listing(regions)
    message = f"there is no region {name or '(empty)'}"
    yield Violation(
        field=FieldPath(Field.REGION), rule="region-unknown", message=message, accepted=accepted
    )


def one_zone_has_all(question: Question) -> Iterator[Violation]:
    """All GPU types of one job are found in one zone (zones.toml, rule)."""
    region, snapshot = question.spec.region or "", question.catalog.snapshot
    if region not in question.catalog.regions or not snapshot or not snapshot.judges(region):
        return
    types = {d.type.name: d.enum_name for _, d in question.devices()}
    covered = snapshot.types_covered.intersection(types)
    # a type that no zone of the region has is the region's fault, and region_has_all names it
    if not covered or not covered <= snapshot.types_in(region):
        return
    if not snapshot.common_zones(region, covered):
        names = listing(types[name] for name in sorted(covered)).replace(" or ", " and ")
        yield Violation(
            field=FieldPath(Field.REGION),
            rule="no-single-zone",
            message=f"no single zone of {region} has {names} ({snapshot.id})",
            accepted=_regions_for(question, covered),
        )


def _regions_for(question: Question, types: frozenset[str]) -> str:
    snapshot, regions = question.catalog.snapshot, question.catalog.regions
    found = [
        name
        for name, region in regions.items()
        if snapshot
        and snapshot.common_zones(name, types)
        and name in snapshot.regions
        and all(region.offers(t) is not False for t in types)
    ]
    return listing(found) if found else "fewer GPU types in one job"


def region_has_all(question: Question) -> Iterator[Violation]:
    """The region offers each accelerator of the job for training."""
    region = question.catalog.regions.get(question.spec.region or "")
    if region is None:
        return
    told = set()
    for group, device in question.devices():
        name = _regional_name(device)
        if name not in told:
            told.add(name)
            yield from _offered(question, region, group, device, name)


def _regional_name(device: Device) -> str:
    """The region tables list slices of a TPU pod by a name of their own."""
    is_slice = device.type.is_tpu and device.count >= SLICE_CORES
    return f"{device.type.name} Pod" if is_slice else device.type.name


def _offered(
    question: Question, region: Region, group: ReplicaGroup, device: Device, name: str
) -> Iterator[Violation]:
    field = Field.ACCELERATOR_TYPE if group.accelerator else Field.MACHINE_TYPE
    if not device.type.is_tpu and not region.has_gpus:
        message = f"{region.name} is no GPU region of edition {question.catalog.edition.id}"
        accepted = listing(_places(question, name), limit=40)
        yield broken(group, field, "region-without-gpus", message, accepted)
    elif region.offers(name) is False:
        marked = " (it is there, but not for training)" if name in region.excluded else ""
        message = f"{region.name} does not offer {device.enum_name} for training{marked}"
        accepted = listing(_places(question, name), limit=40) or "another accelerator type"
        yield broken(group, field, "gpu-not-in-region", message, accepted)


def _places(question: Question, name: str) -> list[str]:
    regions = question.catalog.regions.values()
    sure = [r.name for r in regions if r.has_gpus and r.offers(name)]
    return sure or [r.name for r in regions if r.has_gpus and r.offers(name) is None]
