"""The network of a job's replicas, and their names and addresses in it.

If each job has its own network, its replicas share one namespace or have one each (decision 0087).
"""

from collections.abc import Iterator, Sequence

from trainshed.launch.context import Context
from trainshed.launch.devices import gpus_of
from trainshed.launch.names import host_name
from trainshed.launch.site import LaunchSite
from trainshed.model.job import JobSpec
from trainshed.model.launch_plan import NetworkPlan, ReplicaPlan
from trainshed.model.network import LAYOUTS, NETWORK_LABEL, NetworkLayout


def layout_of(spec: JobSpec) -> NetworkLayout:
    """Choose the layout by the job's label, else by whether its replicas may share GPU memory.

    NCCL's shared memory and peer-to-peer copies need one network namespace for both replicas, so a
    job with a GPU in any replica has one namespace.  Without GPUs each replica has its own
    namespace, as on separate machines.
    """
    if (label := spec.labels.get(NETWORK_LABEL)) in LAYOUTS:
        return NetworkLayout(label)
    has_gpus = any(group.count and gpus_of(group)[0] for group in spec.groups)
    is_single = spec.replica_count <= 1
    return NetworkLayout.JOB if has_gpus or is_single else NetworkLayout.REPLICA


def network_of(site: LaunchSite, replicas: Sequence[ReplicaPlan]) -> NetworkPlan | None:
    """Return the network of an attempt; None: the replicas use the network of their machine."""
    if site.layout is None:
        return None
    return NetworkPlan(
        layout=site.layout,
        addresses=tuple(site.addresses[replica.role, replica.index].host for replica in replicas),
        listeners=site.gateway.listeners if site.gateway else (),
    )


def list_names(context: Context, replicas: Sequence[ReplicaPlan]) -> Iterator[tuple[str, str]]:
    """List (address, name) of every replica: Google's host name, then its name in the log.

    TF_CONFIG and CLUSTER_SPEC have the address itself.  A name would need a mount namespace, which
    not every machine allows, and no program needs it.
    """
    if not context.site.has_names:
        return
    for replica in replicas:
        host = context.site.addresses[replica.role, replica.index].host
        yield host, host_name(context.spec.dialect, context.job_id, replica.role, replica.index)
        yield host, replica.task_name
    yield from context.site.gateway.names if context.site.gateway else ()
