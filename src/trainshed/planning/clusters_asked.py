"""Lists the clusters of a request: the job's own, and those of its what-ifs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from trainshed.catalog.machines import reducers_needed
from trainshed.model.texts import count_noun
from trainshed.planning.links import HostLinks, links_of
from trainshed.planning.memory import MemoryUse, memory_use
from trainshed.planning.plan_request import BatchRule, PlanRequest
from trainshed.planning.prices import Machines
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.parameters import parameters
from trainshed.planning.scaling.posterior import Posterior, posterior
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.training import StepBatch, Strategy, divide_batch
from trainshed.planning.sizing import STEPS, WORKERS_MIN
from trainshed.planning.what_ifs import MEASURE, WhatIf, called, on_host

#: The strategies whose exchanges reducers can do.
_REDUCED = frozenset({Strategy.ALLREDUCE, Strategy.REDUCERS})
_SERVED = frozenset({Strategy.PS_DISTRIBUTED, Strategy.PS_NAIVE})
_LARGEST_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Helpers:
    """Machines that help the workers: reducers or parameter servers."""

    machine_type: str = ""
    gbps: float = 0.0
    count: int = 0
    named: str = ""
    """The field of the job's file that has the count."""

    def machines(self, count: int) -> tuple[Machines, ...]:
        """Return ``count`` of these machines, for prices."""
        return (Machines(count=count, machine_type=self.machine_type),) if count else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job by its file, or by its calibration."""

    host: HostKind
    per_host: int
    """Accelerators of each host."""
    hosts: int = 0
    """0 if no file gives the count."""
    reducers: Helpers
    servers: Helpers = field(default_factory=Helpers)
    fitting: tuple[int, ...] = ()
    """The accelerator counts that a host may have; empty: any number."""
    kinds: tuple[tuple[HostKind, tuple[int, ...]], ...] = ()
    """Other kinds of hosts to compare, with the accelerator counts that each may have."""
    others: tuple[Machines, ...] = ()
    """Other machines to pay for: an evaluator."""


def clusters(
    job: PlannedJob, request: PlanRequest, calibrations: Sequence[Calibration]
) -> Iterator[WhatIf]:
    """Yield every cluster of the request, and the job's own."""
    for kind in dict.fromkeys((job.host, *dict(job.kinds))):
        for what_if in _clusters_of_kind(job, request, calibrations, kind):
            n = what_if.cluster.accelerators
            is_own = kind == job.host and n == job.hosts * job.per_host
            if not (is_own and job.reducers.count and request.reducers is None):
                yield replace(what_if, is_own=is_own)
                continue
            yield what_if
            own_cluster = _add_reducers(job, what_if, job.reducers.count)
            yield replace(own_cluster, is_own=True)


def _clusters_of_kind(
    job: PlannedJob, request: PlanRequest, calibrations: Sequence[Calibration], kind: HostKind
) -> Iterator[WhatIf]:
    """Yield the clusters of one kind of host, one for each count of accelerators."""
    is_job_host = kind == job.host
    per_host = job.per_host if is_job_host else kind.per_host
    fitting = job.fitting if is_job_host else dict(job.kinds).get(kind, ())
    calibration = on_host(calibrations, kind)
    unmeasured = None if calibration else _unmeasured(calibrations, kind)
    links = links_of(calibration, kind, request) if calibration else HostLinks(host=kind)
    posteriors = [_make_posterior(one.calibration) for one in (links, *links.ends)]
    for accelerators in _counts(job, request, per_host, fitting):
        what_if = _what_if(job, request, links.calibration, (links.host, per_host), accelerators)
        memory = _memory(request, what_if, kind.memory_bytes or links.host.memory_bytes)
        crosses = what_if.cluster.hosts > 1
        what_if = replace(
            what_if,
            posterior=posteriors[0],
            unmeasured=unmeasured,
            memory=memory,
            refused=what_if.refused
            or _unfitting(what_if.cluster, fitting)
            or (memory.refused if memory else None)
            or (links.refused if crosses else None),
            is_asked=accelerators in _list_requested(request, per_host),
        )
        ends = zip(links.ends, posteriors[1:], strict=True) if crosses else ()
        yield replace(what_if, ends=tuple(_at_end(job, what_if, *end) for end in ends))


def _at_end(
    job: PlannedJob, what_if: WhatIf, end: HostLinks, posterior: Posterior | None
) -> WhatIf:
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
        what_if, cluster=cluster, calibration=end.calibration, posterior=posterior, ends=()
    )


def _scale_rate(helper_gbps: float, nominal_gbps: float, gbps: float) -> float:
    """Return the rate of a helper's link if hosts with ``nominal_gbps`` have ``gbps``.

    A helper has a link like a host's if one of the nominal rates is unknown.
    """
    return gbps * helper_gbps / nominal_gbps if helper_gbps and nominal_gbps else gbps


def _memory(request: PlanRequest, what_if: WhatIf, available: float) -> MemoryUse | None:
    """Return the memory that a cluster needs; None if it is unknown."""
    if what_if.calibration is None or request.model_parallel > 1:
        return None
    return memory_use(what_if.calibration, what_if.cluster, what_if.batch, available)


def _unmeasured(calibrations: Sequence[Calibration], kind: HostKind) -> NoPrediction | None:
    """Return why a kind of host was not measured; None without any measurement."""
    measured = dict.fromkeys(called(calibration.host) for calibration in calibrations)
    if not measured:
        return None
    return NoPrediction(
        field="calibration",
        message=f"{' and '.join(measured)} was measured, not {called(kind)}",
        accepted=f"{' or '.join(measured)}; or {MEASURE}",
    )


def _make_posterior(calibration: Calibration | None) -> Posterior | None:
    if calibration is None or "compute_s" not in calibration.fitted.values:
        return None
    return posterior(calibration, parameters())


def _counts(
    job: PlannedJob, request: PlanRequest, per_host: int, fitting: tuple[int, ...]
) -> tuple[int, ...]:
    own_count = (job.hosts * job.per_host,) if job.hosts else ()
    requested = _list_requested(request, per_host)
    if not requested:
        most = max(*own_count, 8 * per_host, 1) if not own_count else 2 * own_count[0]
        requested = tuple(
            1 << power for power in range(_LARGEST_MAX.bit_length()) if 1 << power <= most
        )
        requested = tuple(
            n
            for n in requested
            if n % per_host == 0 or (n < per_host and (not fitting or n in fitting))
        )
    return tuple(sorted({*requested, *own_count}))


def _list_requested(request: PlanRequest, per_host: int) -> tuple[int, ...]:
    return (
        *request.counts("gpus"),
        *(hosts * per_host for hosts in request.counts("hosts")),
    )


def _what_if(
    job: PlannedJob,
    request: PlanRequest,
    calibration: Calibration | None,
    host_config: tuple[HostKind, int],
    accelerators: int,
) -> WhatIf:
    host, per_host = host_config
    hosts = math.ceil(accelerators / per_host)
    servers = _servers(job, request)
    reducers = request.reducers or 0
    cluster = Cluster(
        host=host,
        accelerators=accelerators,
        hosts=hosts,
        reducers=reducers,
        reducer_gbps=job.reducers.gbps if reducers else 0.0,
        servers=servers,
        server_gbps=job.servers.gbps if servers else 0.0,
    )
    batch = _batch(job, request, calibration, accelerators)
    undivided = _undivided(job, request, calibration, accelerators)
    return WhatIf(
        cluster=cluster,
        machines=_machines(job, cluster),
        calibration=calibration,
        batch=batch,
        is_divided=request.batch is BatchRule.KEEP_GLOBAL,
        refused=_refused(request, calibration, cluster, batch)
        or undivided
        or _unserved(job, request, calibration),
    )


def _servers(job: PlannedJob, request: PlanRequest) -> int:
    """Return the requested parameter servers, else the job's."""
    return job.servers.count if request.servers is None else request.servers


def _machines(job: PlannedJob, cluster: Cluster) -> tuple[Machines, ...]:
    host = cluster.host
    has_devices = host.accelerator not in {"", "CPU"}
    workers = Machines(
        count=cluster.hosts,
        machine_type=host.machine_type or job.host.machine_type,
        accelerator=host.accelerator if has_devices else "",
        accelerators=math.ceil(cluster.per_host) if has_devices else 0,
    )
    helpers = (*job.reducers.machines(cluster.reducers), *job.servers.machines(cluster.servers))
    return (workers, *helpers, *job.others)


def global_batch(job: PlannedJob, calibration: Calibration) -> float:
    """Return the samples in a step of the job; without a file, in a step of the smallest run."""
    counts = [run.accelerators for run in calibration.runs] or [1]
    accelerators = job.hosts * job.per_host or min(counts)
    return accelerators * calibration.training.batch_per_accelerator


def _batch(
    job: PlannedJob, request: PlanRequest, calibration: Calibration | None, accelerators: int
) -> StepBatch:
    if calibration is None:
        return StepBatch()
    training = calibration.training
    if request.batch is BatchRule.KEEP_LOCAL:
        return StepBatch(
            samples=training.batch_per_accelerator, micro_batches=training.micro_batches
        )
    samples = global_batch(job, calibration) / accelerators
    return divide_batch(training, samples, request.largest_batch)


def _undivided(
    job: PlannedJob, request: PlanRequest, calibration: Calibration | None, accelerators: int
) -> NoPrediction | None:
    """Return why a step's samples cannot be divided among so many accelerators."""
    if calibration is None or request.batch is BatchRule.KEEP_LOCAL:
        return None
    samples = global_batch(job, calibration)
    if accelerators <= samples or calibration.training.batch_per_accelerator % 1:
        return None
    return NoPrediction(
        field="batch",
        message=f"a step has {samples:,.12g} samples, fewer than the {accelerators} accelerators",
        accepted=f"at most {samples:,.12g} accelerators, or --batch keep-local",
    )


def _refused(
    request: PlanRequest, calibration: Calibration | None, cluster: Cluster, batch: StepBatch
) -> NoPrediction | None:
    n, hosts, copies = cluster.accelerators, cluster.hosts, request.model_parallel
    if n % hosts:
        return NoPrediction(
            field="gpus",
            message=f"{n} do not divide evenly over {hosts} hosts",
            accepted="the same number on each host",
        )
    requested = next(iter(request.counts("model-parallel")), copies)
    if requested != copies:
        return NoPrediction(
            field="model-parallel",
            message=f"{requested} accelerators for one model were not measured, {copies} were",
            accepted=f"{copies}; only copies of the model are added",
        )
    if unheld := _unheld(calibration, copies):
        return unheld
    if n % copies:
        return NoPrediction(
            field="gpus",
            message=f"{n} is not a multiple of the {copies} accelerators that hold one model",
            accepted=f"multiples of {copies}",
        )
    micro_batch = batch.samples / max(1, batch.micro_batches)
    if micro_batch > request.largest_batch:
        return NoPrediction(
            field="batch",
            message=f"{micro_batch:,.12g} samples on one accelerator; at most "
            f"{request.largest_batch:,.12g} fit",
            accepted="a calibration with a smaller batch, or --batch keep-global",
        )
    return None


def _unheld(calibration: Calibration | None, copies: int) -> NoPrediction | None:
    """Return why a copy of the model on so many accelerators was not measured."""
    counts = {run.accelerators for run in timed(calibration.runs)} if calibration else set()
    least = min(counts, default=copies)
    if least % copies == 0:
        return None
    return NoPrediction(
        field="model-parallel",
        message=f"{count_noun(least, 'accelerator')} trained in the measurement, which is not a "
        f"multiple of the {copies} that hold one model",
        accepted=f"{_divisors(least)}; or a calibration whose runs have multiples of {copies}",
    )


def _divisors(count: int) -> str:
    return " or ".join(f"{divisor}" for divisor in range(1, count + 1) if count % divisor == 0)


def _unfitting(cluster: Cluster, fitting: tuple[int, ...]) -> NoPrediction | None:
    """Return why a host of the catalog cannot have this many accelerators."""
    per_host = cluster.accelerators // cluster.hosts
    if not fitting or per_host in fitting:
        return None
    host = cluster.host
    return NoPrediction(
        field="gpus",
        message=f"{host.machine_type} cannot have {per_host} {host.accelerator}",
        accepted=f"{' or '.join(map(str, fitting))} on each host",
    )


def _unserved(
    job: PlannedJob, request: PlanRequest, calibration: Calibration | None
) -> NoPrediction | None:
    if calibration is None:
        return None
    strategy = calibration.training.strategy
    if _servers(job, request) and strategy not in _SERVED:
        of_file = job.servers.named if request.servers is None else ""
        return NoPrediction(
            field=of_file or "parameter-servers",
            message=f"the training exchanges by {strategy.value}, and has no parameter servers",
            accepted="--parameter-servers 0, or a calibration of a training with them",
        )
    if request.reducers and strategy not in _REDUCED:
        return NoPrediction(
            field="reducers",
            message=f"the training exchanges by {strategy.value}, which reducers do not serve",
            accepted="0, or a training that exchanges by allreduce",
        )
    return None


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
    can_reduce = calibration and calibration.training.strategy in _REDUCED and not cluster.reducers
    if not can_reduce or what_if.refused or cluster.hosts < WORKERS_MIN or not enough:
        return
    for count in sorted({enough * step // STEPS for step in range(1, STEPS + 1)} - {0}):
        yield _add_reducers(job, what_if, count)


def _add_reducers(job: PlannedJob, what_if: WhatIf, count: int) -> WhatIf:
    cluster = replace(what_if.cluster, reducers=count, reducer_gbps=job.reducers.gbps)
    machines = _machines(job, cluster)
    reduced = replace(what_if, cluster=cluster, machines=machines, is_own=False)
    ends = (
        (HostLinks(host=end.cluster.host, calibration=end.calibration), end.posterior)
        for end in what_if.ends
    )
    return replace(reduced, ends=tuple(_at_end(job, reduced, *end) for end in ends))
