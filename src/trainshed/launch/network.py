"""Which network a job's replicas have where each job has a network of its own (decision 0087)."""

from trainshed.launch.devices import gpus_of
from trainshed.model.job import JobSpec
from trainshed.model.network import LAYOUTS, NETWORK_LABEL, NetworkLayout


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
