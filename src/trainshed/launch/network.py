"""Which network the replicas of a job have, and what their names and addresses are.

Where each job has a network of its own its replicas share it, or have one each (decision 0087).
"""

from collections.abc import Iterator, Mapping

from trainshed.launch.devices import gpus_of
from trainshed.launch.names import host_name
from trainshed.model.gateway import GatewaySight
from trainshed.model.job import JobSpec
from trainshed.model.launch_plan import Address, LaunchPlan, NetworkPlan
from trainshed.model.network import LAYOUTS, NETWORK_LABEL, NetworkLayout
from trainshed.model.roles import Role

Addresses = Mapping[tuple[Role, int], Address]


def layout_of(spec: JobSpec) -> NetworkLayout:
    """Choose the layout by the job's label, else by whether its replicas may share GPU memory.

    NCCL's shared memory and peer-to-peer copies need one network namespace for both replicas, so a
    job of which any replica has a GPU has one.  Without GPUs each replica has one for itself, as on
    machines of their own.
    """
    if (wanted := spec.labels.get(NETWORK_LABEL)) in LAYOUTS:
        return NetworkLayout(wanted)
    has_gpus = any(group.count and gpus_of(group)[0] for group in spec.groups)
    is_single = spec.replica_count <= 1
    return NetworkLayout.JOB if has_gpus or is_single else NetworkLayout.REPLICA


def network_of(
    plan: LaunchPlan,
    addresses: Addresses,
    layout: NetworkLayout | None,
    gateway: GatewaySight | None = None,
) -> NetworkPlan | None:
    """The network of an attempt for its plan; None: the replicas have that of the machine.

    ``gateway`` says where the gateway answers in it.
    """
    if layout is None:
        return None
    hosts = (addresses[replica.role, replica.index].host for replica in plan.replicas)
    listeners = gateway.listeners if gateway else ()
    return NetworkPlan(layout=layout, addresses=tuple(hosts), listeners=listeners)


def names_of(spec: JobSpec, plan: LaunchPlan, addresses: Addresses) -> Iterator[tuple[str, str]]:
    """List (address, name) of every replica: Google's host name, then its name in the log.

    TF_CONFIG and CLUSTER_SPEC have the address itself: a name in them would help only programs that
    do not run here, and would need a mount namespace, which not every machine allows.
    """
    for replica in plan.replicas:
        host = addresses[replica.role, replica.index].host
        yield host, host_name(spec.dialect, plan.job_id, replica.role, replica.index)
        yield host, replica.task_name
