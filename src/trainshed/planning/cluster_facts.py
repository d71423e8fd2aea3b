"""Says what is known of a job's cluster without a prediction: its reducers and its price."""

from collections.abc import Iterator

from trainshed.planning.amounts import money
from trainshed.planning.cluster_refusals import can_reduce
from trainshed.planning.clusters_asked import matching_reducers
from trainshed.planning.job_plan import JobPlan
from trainshed.planning.plan_words import noun
from trainshed.planning.reduction_forecast import ReductionForecast
from trainshed.planning.sizing import WORKERS_MIN, Hosts


def cluster_facts(plan: JobPlan) -> Iterator[str]:
    """Yield a line on the reducers that match the job, and one on the price of an hour.

    A prediction of the job has its price, and a table with reducers their number.
    """
    own = plan.own
    forecast = matching_forecast(plan)
    if forecast and not any(option.cluster.reducers for option in plan.options):
        yield f"{'reducers':<9} {forecast.sentence}"
    if own.hour and own.prediction is None:
        name = noun(own.cluster)
        yield f"{'price':<9} {name}: {money(own.hour.amount, own.hour.currency)} an hour"


def matching_forecast(plan: JobPlan) -> ReductionForecast | None:
    """Return the gain of reducers that match the job's own hosts; None if they cannot help."""
    what_if = plan.own.what_if
    cluster, calibration = what_if.cluster, what_if.calibration
    is_served = plan.job.servers.count or (calibration and not can_reduce(calibration))
    count = matching_reducers(plan.job, cluster)
    if not count or is_served or cluster.hosts < WORKERS_MIN or what_if.parts:
        return None
    gbps = cluster.host.network_gbps or plan.job.host.network_gbps
    hosts = Hosts(
        workers=cluster.hosts,
        worker_gbps=gbps,
        total_gbps=cluster.hosts * gbps,
        reducer_gbps=plan.job.reducers.gbps,
    )
    return ReductionForecast(
        hosts=hosts,
        reducers=count,
        machine_type=plan.job.reducers.machine_type,
        links_assumed=cluster.host.network_assumed or not cluster.host.network_gbps,
    )
