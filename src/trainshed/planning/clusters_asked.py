"""Lists the clusters of a request: the job's own, and those of its what-ifs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainshed.catalog.machines import reducers_needed
from trainshed.planning.cluster_refusals import can_reduce, refuse_cluster, refuse_host
from trainshed.planning.layouts import HostType, Layout, requested_layouts, usual_layouts
from trainshed.planning.links import HostLinks, links_of, network_gbps
from trainshed.planning.measured_hosts import is_same, on_host
from trainshed.planning.memory import memory_use
from trainshed.planning.plan_request import CATALOG, BatchRule, PlanRequest
from trainshed.planning.planned_jobs import PlannedJob
from trainshed.planning.prices import Machines
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.predict import smallest
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.training import StepBatch, divide_batch
from trainshed.planning.sizing import STEPS, WORKERS_MIN
from trainshed.planning.what_ifs import WhatIf


def with_known_links(
    job: PlannedJob, request: PlanRequest, calibrations: Sequence[Calibration]
) -> PlannedJob:
    """Return the job with helpers on the network of its hosts, if that is measured or given.

    Their links keep the proportion to a host's that Google's machine types have.
    """
    calibration = on_host(calibrations, job.host)
    if request.network_gbps == CATALOG or calibration is None:
        return job
    gbps = network_gbps(calibration, job.host, request)
    is_own = gbps == job.host.network_gbps and not job.host.network_assumed
    if is_own or not gbps:
        return job
    nominal = job.host.network_gbps if job.host.network_assumed else 0.0
    reducers, servers = (
        replace(helpers, gbps=_scale_rate(helpers.gbps, nominal, gbps))
        for helpers in (job.reducers, job.servers)
    )
    return replace(job, reducers=reducers, servers=servers)


def clusters(
    job: PlannedJob, request: PlanRequest, calibrations: Sequence[Calibration]
) -> Iterator[WhatIf]:
    """Yield every cluster of the request, and the job's own."""
    lister = _ClusterLister(job, request, calibrations)
    if job.mixed:
        yield lister.mixture()
    for host_type in dict.fromkeys((job.host_type, *job.others)):
        for layout, is_requested in lister.layouts(host_type).items():
            unfit = host_type.refuse(layout.accelerators // layout.hosts)
            what_if = replace(lister.what_if(layout, unfit), is_asked=is_requested)
            is_own = not job.mixed and host_type == job.host_type and layout == job.layout
            yield from _with_own_reducers(job, request, what_if) if is_own else [what_if]


def _with_own_reducers(job: PlannedJob, request: PlanRequest, what_if: WhatIf) -> Iterator[WhatIf]:
    """Yield the job's own cluster, before it the same without its reducers if it has some."""
    if job.reducers.count and request.reducers is None:
        yield what_if
        what_if = _add_reducers(job, what_if, job.reducers.count)
    yield replace(what_if, is_own=True)


class _ClusterLister:
    """Lists the clusters of a plan; the calibration of each kind of host is fitted once."""

    def __init__(
        self, job: PlannedJob, request: PlanRequest, calibrations: Sequence[Calibration]
    ) -> None:
        self._job = job
        self._request = request
        self._calibrations = calibrations
        self._links: dict[HostKind, HostLinks] = {}

    def layouts(self, host_type: HostType) -> dict[Layout, bool]:
        """Return the layouts on one kind of host by size, and whether the user requested each."""
        job, own_count = self._job, self._job.accelerators
        requested = frozenset(requested_layouts(host_type, self._request, job.hosts))
        layouts = requested or frozenset(usual_layouts(host_type, own_count))
        if own_count:
            own = job.layout if host_type == job.host_type else None
            layouts |= {own or host_type.comparable(own_count)}
        layouts |= set(self._measured_layouts(host_type))
        ordered = sorted(layouts, key=lambda layout: (layout.accelerators, layout.hosts))
        return {layout: layout in requested for layout in ordered}

    def _measured_layouts(self, host_type: HostType) -> Iterator[Layout]:
        """Yield the counts at which steps were timed on a type of host, if jobs may have them."""
        host = host_type.host
        for calibration in self._calibrations:
            for run in timed(calibration.runs) if is_same(calibration.host, host) else ():
                layout = Layout(host=host, accelerators=run.accelerators)
                if layout.hosts == run.hosts and not host_type.refuse(
                    run.accelerators // run.hosts
                ):
                    yield layout

    def mixture(self) -> WhatIf:
        """Return the job's own cluster of several kinds of hosts."""
        hosts = sum(count for _, count in self._job.mixed)
        parts = [
            self.what_if(Layout(host=kind, accelerators=hosts * kind.per_host))
            for kind, _ in self._job.mixed
        ]
        whole = replace(_mix(self._job, parts), ends=(), is_own=True)
        if not any(part.ends for part in parts):
            return whole
        of_ends = ([part.ends[end] if part.ends else part for part in parts] for end in (0, 1))
        return replace(whole, ends=tuple(_mix(self._job, parts) for parts in of_ends))

    def what_if(self, layout: Layout, unfit: NoPrediction | None = None) -> WhatIf:
        """Return a cluster with its calibration, batch and memory; ``unfit`` refuses it."""
        job, request, links = self._job, self._request, self._find_links(layout.host)
        calibration, crosses = links.calibration, layout.hosts > 1
        servers, reducers = job.server_count(request), request.reducers or 0
        cluster = Cluster(
            host=links.host,
            accelerators=layout.accelerators,
            hosts=layout.hosts,
            reducers=reducers,
            reducer_gbps=job.reducers.gbps if reducers else 0.0,
            servers=servers,
            server_gbps=job.servers.gbps if servers else 0.0,
        )
        batch = self._batch(calibration, layout.accelerators)
        memory = misfit = None
        if calibration and request.model_parallel == 1:
            available = layout.host.memory_bytes or cluster.host.memory_bytes
            memory = memory_use(calibration, cluster, batch, available)
            misfit = memory and memory.refuse(calibration.training.strategy)
        is_published = calibration is not None and calibration.is_published
        what_if = WhatIf(
            cluster=cluster,
            machines=_machines(job, cluster),
            links=links,
            batch=batch,
            memory=memory,
            efficiency_max=_limit_efficiency(calibration, batch) if is_published else math.inf,
            refused=refuse_cluster(job, request, calibration, cluster, batch)
            or unfit
            or (None if calibration else refuse_host(self._calibrations, layout.host))
            or misfit
            or (links.refused if crosses else None),
        )
        at_ends = (_at_end(job, what_if, end) for end in links.ends if crosses)
        return replace(what_if, ends=tuple(at_ends))

    def _find_links(self, kind: HostKind) -> HostLinks:
        if kind not in self._links:
            calibration, links = on_host(self._calibrations, kind), HostLinks(host=kind)
            if calibration:
                links = links_of(calibration, kind, self._request)
            self._links[kind] = links
        return self._links[kind]

    def _batch(self, calibration: Calibration | None, accelerators: int) -> StepBatch:
        if calibration is None:
            return StepBatch()
        training = calibration.training
        if self._request.batch is BatchRule.KEEP_LOCAL:
            return StepBatch(
                samples=training.batch_per_accelerator, micro_batches=training.micro_batches
            )
        samples = self._job.global_batch(calibration) / accelerators
        return divide_batch(training, samples, self._request.largest_batch)


def _mix(job: PlannedJob, parts: Sequence[WhatIf]) -> WhatIf:
    """Return the cluster of the job's kinds of hosts; each part is the whole job on one kind."""
    pairs = list(zip(parts, job.mixed, strict=True))
    workers = (replace(part.machines[0], count=count) for part, (_, count) in pairs)
    return replace(
        parts[0],
        cluster=replace(parts[0].cluster, accelerators=job.accelerators),
        machines=(*workers, *parts[0].machines[1:]),
        parts=tuple((part, count * kind.per_host) for part, (kind, count) in pairs),
    )


def _at_end(job: PlannedJob, what_if: WhatIf, end: HostLinks) -> WhatIf:
    """Return the cluster with links of one rate."""
    cluster = replace(what_if.cluster, host=end.host)
    nominal = what_if.cluster.host.network_gbps or job.host.network_gbps
    if cluster.servers:
        gbps = _scale_rate(job.servers.gbps, nominal, end.host.network_gbps)
        cluster = replace(cluster, server_gbps=gbps)
    if cluster.reducers:
        gbps = _scale_rate(job.reducers.gbps, nominal, end.host.network_gbps)
        cluster = replace(cluster, reducer_gbps=gbps)
    return replace(
        what_if,
        cluster=cluster,
        links=end,
        ends=(),
        efficiency_max=_limit_efficiency(end.calibration, what_if.batch),
    )


def _limit_efficiency(calibration: Calibration | None, batch: StepBatch) -> float:
    """Return the highest efficiency over assumed links: 1, or what was measured.

    A batch larger than the measured one has no limit.
    """
    if calibration is None or batch.samples > calibration.training.batch_per_accelerator:
        return math.inf
    training = calibration.training
    rates = {run: run.samples_of(training) / run.step_s for run in timed(calibration.runs)}
    return max(rates.values()) / rates[smallest(calibration)] if rates else math.inf


def _scale_rate(helper_gbps: float, nominal_gbps: float, gbps: float) -> float:
    """Return the rate of a helper's link if hosts with ``nominal_gbps`` have ``gbps``.

    A helper has a link like a host's if one of the nominal rates is unknown.
    """
    return gbps * helper_gbps / nominal_gbps if helper_gbps and nominal_gbps else gbps


def _machines(job: PlannedJob, cluster: Cluster) -> tuple[Machines, ...]:
    host = cluster.host
    has_devices = not host.trains_on_cpus
    workers = Machines(
        count=cluster.hosts,
        machine_type=host.machine_type or job.host.machine_type,
        accelerator=host.accelerator if has_devices else "",
        accelerators=math.ceil(cluster.per_host) if has_devices else 0,
    )
    helpers = (*job.reducers.machines(cluster.reducers), *job.servers.machines(cluster.servers))
    return (workers, *helpers, *job.paid)


def matching_reducers(job: PlannedJob, cluster: Cluster) -> int:
    """Return the fewest reducers that match the workers by the rates of data sheets.

    0 if one of the rates is unknown.
    """
    reducer_gbps = job.reducers.gbps
    host_gbps = cluster.host.network_gbps or job.host.network_gbps
    return (
        reducers_needed(cluster.hosts * host_gbps, reducer_gbps)
        if reducer_gbps and host_gbps
        else 0
    )


def with_reducers(job: PlannedJob, what_if: WhatIf) -> Iterator[WhatIf]:
    """Yield the cluster with reducers, up to as many as match its workers."""
    cluster, calibration = what_if.cluster, what_if.calibration
    enough = matching_reducers(job, cluster)
    if (
        calibration is None
        or not can_reduce(calibration)
        or cluster.reducers
        or what_if.parts
        or what_if.refused
        or cluster.hosts < WORKERS_MIN
        or not enough
    ):
        return
    for count in sorted({enough * step // STEPS for step in range(1, STEPS + 1)} - {0}):
        yield _add_reducers(job, what_if, count)


def _add_reducers(job: PlannedJob, what_if: WhatIf, count: int) -> WhatIf:
    cluster = replace(what_if.cluster, reducers=count, reducer_gbps=job.reducers.gbps)
    machines = _machines(job, cluster)
    reduced = replace(what_if, cluster=cluster, machines=machines, is_own=False)
    ends = (_at_end(job, reduced, end.links) for end in what_if.ends)
    return replace(reduced, ends=tuple(ends))
