"""Rules about a Reduction Server pool: the workers that it serves, and its bandwidth."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainshed.admission.context import RuleContext, broken
from trainshed.catalog.machines import reducers_needed
from trainshed.catalog.software import PrebuiltImage, prebuilt_image, version
from trainshed.model.faults import Field, Violation
from trainshed.model.job import ReplicaGroup
from trainshed.model.roles import Role

#: The oldest prebuilt images that carry the reduction client (docs/sources/catalog.md, seed001).
OLDEST = {"TensorFlow": "2.3", "PyTorch": "1.4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLinks:
    """The replicas that exchange gradients, primary and workers, and their bandwidth in Gbit/s."""

    hosts: int
    slowest_gbps: float
    total_gbps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The total egress of the workers and of the reducers, in Gbit/s.

    Reducers must match the workers; ``reducers_min`` is the number that does.
    """

    worker_gbps: float
    reducer_gbps: float
    reducers: int
    reducers_min: int


def worker_links(context: RuleContext) -> WorkerLinks | None:
    """Return the workers and their bandwidth; None if a figure is unknown or without workers."""
    groups = [group for group in _list_workers(context) if group.count > 0]
    links = [(group.count, context.egress_gbps(group)) for group in groups]
    known_links = [(count, gbps) for count, gbps in links if gbps]
    if not known_links or len(known_links) < len(links):
        return None
    return WorkerLinks(
        hosts=sum(count for count, _ in known_links),
        slowest_gbps=min(gbps for _, gbps in known_links),
        total_gbps=sum(count * gbps for count, gbps in known_links),
    )


def sizing(context: RuleContext) -> Sizing | None:
    """Return the bandwidth of reducers and workers; None without reducers or if one is unknown."""
    reducer = context.spec.group(Role.REDUCER)
    gbps = context.egress_gbps(reducer) if reducer else None
    workers = worker_links(context)
    if not reducer or not gbps or not workers:
        return None
    return Sizing(
        worker_gbps=workers.total_gbps,
        reducer_gbps=gbps * reducer.count,
        reducers=reducer.count,
        reducers_min=reducers_needed(workers.total_gbps, gbps),
    )


def reduction_server_fits(context: RuleContext) -> Iterator[Violation]:
    """The third pool's reducers serve GPU workers, on supported software, with enough bandwidth."""
    reducer = context.spec.group(Role.REDUCER)
    if reducer is None:
        return
    machine = context.machine(reducer)
    accelerator_type = reducer.accelerator and reducer.accelerator.type
    if accelerator_type or (machine and machine.bundled):
        message = "reducers sum on the CPU and must have no GPUs"
        yield broken(reducer, Field.ACCELERATOR, "reducer-with-gpu", message, "no accelerator")
    yield from _check_gpu_workers(context)
    yield from _check_framework(context)
    yield from _check_bandwidth(context, reducer)


def _list_workers(context: RuleContext) -> list[ReplicaGroup]:
    groups = (context.spec.group(role) for role in (Role.PRIMARY, Role.WORKER))
    return [group for group in groups if group]


def _check_gpu_workers(context: RuleContext) -> Iterator[Violation]:
    for group in _list_workers(context):
        device = context.device(group)
        has_type = group.accelerator and group.accelerator.type
        if not has_type and (device is None or device.type.is_tpu):
            message = "a Reduction Server needs workers with GPUs"
            accepted = "an acceleratorType and acceleratorCount, or no reduction pool"
            yield broken(group, Field.ACCELERATOR, "reduction-needs-gpu-workers", message, accepted)


def _check_framework(context: RuleContext) -> Iterator[Violation]:
    for group in _list_workers(context):
        uri = group.program.image_uri if group.program else None
        image = prebuilt_image(uri) if uri else None
        if image and image.version and not _is_supported(image):
            message = f"the prebuilt image {image.framework} {image.version} ({image.accelerator}) "
            message += "has no reduction client"
            accepted = "a GPU image of TensorFlow 2.3 or PyTorch 1.4 or later, or a custom image"
            yield broken(group, Field.IMAGE_URI, "reduction-framework-version", message, accepted)


def _is_supported(image: PrebuiltImage) -> bool:
    oldest = OLDEST.get(image.framework)
    if oldest is None or image.accelerator != "gpu":
        return False
    return version(image.version) >= version(oldest)


def _check_bandwidth(context: RuleContext, reducer: ReplicaGroup) -> Iterator[Violation]:
    size = sizing(context)
    if size and size.reducers < size.reducers_min:
        message = (
            f"{size.reducers} {reducer.machine_type} send {size.reducer_gbps:g} Gbit/s, "
            f"the workers {size.worker_gbps:g}; reducers must match or exceed them"
        )
        accepted = f"{size.reducers_min} or more"
        yield broken(reducer, Field.COUNT, "reducer-bandwidth", message, accepted)
