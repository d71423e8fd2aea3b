"""How long components of a cluster take, in seconds; the defaults are those of the recorded one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterTimes:
    job_batch_s: float = 1.0
    """Changes of pods reach the Job controller together, once in this time."""
    create_retry_s: float = 1.0
    """The first wait after a pod was refused; it doubles."""
    pod_backoff_s: float = 10.0
    """The wait before a failed pod is replaced."""
    start_s: float = 0.05
    sandbox_s: float = 0.2
    container_s: float = 0.2
    """What a kubelet takes to see a pod, to make its network, and to start a container."""
    exit_s: float = 1.1
    """From the exit code in a pod's status to its last phase."""
    kill_s: float = 0.2
    removal_s: float = 0.4
    """From a kubelet's last status of a pod that goes to the pod's removal."""
    pull_s: float = 10.0
    """What a pull takes that fails."""
    pull_backoff_s: float = 15.5
    pull_backoff_max_s: float = 300.0
    config_retry_s: float = 11.0
    """Between two tries to make a container whose Secret or image name is wrong."""
    scheduler_retry_s: float = 3.0
    node_grace_s: float = 47.0
    """From the last word of a node to Ready=Unknown."""
    toleration_s: float = 300.0
    """For pods that say nothing about nodes that are not ready (300 s in their manifest)."""
    pod_gc_s: float = 43.0
    """From the removal of a Node to the end of its pods."""
    kueue_stop_s: float = 0.5
    """How long a JobSet runs that somebody resumed past Kueue."""
    admission_s: float = 0.05
    """What Kueue takes to look at its queues."""


#: Times of tests with real processes.
QUICK = ClusterTimes(
    job_batch_s=0.05,
    create_retry_s=0.2,
    pod_backoff_s=0.2,
    start_s=0.0,
    sandbox_s=0.0,
    container_s=0.0,
    exit_s=0.02,
    kill_s=0.0,
    removal_s=0.02,
    pull_s=0.1,
    pull_backoff_s=0.5,
    pull_backoff_max_s=2.0,
    config_retry_s=0.3,
    scheduler_retry_s=0.2,
    node_grace_s=0.5,
    toleration_s=1.0,
    pod_gc_s=0.5,
    kueue_stop_s=0.3,
    admission_s=0.01,
)
