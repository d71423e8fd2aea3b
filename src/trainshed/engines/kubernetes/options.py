"""Reads the table of a Kubernetes cluster in the configuration; refuses unknown settings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final

from trainshed.engines.kubernetes.gpus import GpuRow
from trainshed.engines.kubernetes.pod_settings import (
    READERS,
    read_gpus,
    read_security,
    read_selector,
    read_tolerations,
)
from trainshed.engines.kubernetes.security import AS_IMAGE, SecuritySettings
from trainshed.engines.kubernetes.tolerations import Toleration
from trainshed.engines.setting_readers import Reader
from trainshed.model.faults import UsageFault
from trainshed.model.resources import FleetPolicy

#: Prefix of the labels of a job that are options for Kubernetes.
WISH: Final = "trainshed-kubernetes-"
#: The options that labels may set, if the setting ``wishes`` lists them.  Values of Google's labels
#: have no slash and no equals sign, so labels cannot select nodes.
WISHES: Final = ("queue", "priority-class", "workload-priority-class")
#: Limit of ``grace_s_max``: a pod that does not end may use its node for this time.
GRACE_S_LIMIT: Final = 3600.0
#: The policies for pulling images; empty: Kubernetes' default for the image's tag.
PULL_POLICIES: Final = ("", "Always", "IfNotPresent", "Never")
_RELATIVE_PATH: Final = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """The settings of one ``[[engine]]`` table of kind ``kubernetes``."""

    spool: str
    """The folder of the claim, as the server sees it."""
    claim: str
    """The name of the PersistentVolumeClaim that server and pods share."""
    namespace: str = ""
    """The namespace of all objects; if empty, that of the kubeconfig or the service account."""
    kubeconfig: str = ""
    """The file with the address of the cluster; if empty, the usual file or the service account."""
    context: str = ""
    """The context in the kubeconfig; if empty, its current context."""
    queue: str | Mapping[str, str] = ""
    """Kueue's LocalQueue for all projects, or a table by project; ``*`` is for all other projects.
    Empty: jobs do not use Kueue."""
    wishes: tuple[str, ...] = ()
    """The options of ``WISHES`` that jobs may set by label."""
    priority_class: str = ""
    """The PriorityClass of pods."""
    workload_priority_class: str = ""
    """Kueue's WorkloadPriorityClass; if empty, Kueue uses the priority of the pods."""
    image_pull_policy: str = ""
    """One of ``PULL_POLICIES``."""
    image_pull_secrets: tuple[str, ...] = ()
    """The names of the Secrets with which kubelets pull images."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """The labels of the nodes that jobs may use."""
    tolerations: tuple[Toleration, ...] = ()
    gpus: Mapping[str, GpuRow] = field(default_factory=dict)
    """How pods request GPUs, by accelerator type; ``any`` is for all other types."""
    policy: FleetPolicy = FleetPolicy.EXACT
    """``exact``: pods request the CPUs and the memory of their machine type."""
    security: SecuritySettings = AS_IMAGE
    registry: bool = True
    """Whether to ask registries for the entry points of images."""
    probe_image: str = ""
    """The image of the pods of ``trainshed doctor --engine``, which may be empty: any image that
    the nodes can pull.  If not set, the probe starts no pod."""
    docker_config: str = ""
    """The file with the credentials for registries, as the server sees it."""
    ca_file: str = ""
    """The file with further certificate authorities of registries, as the server sees it."""
    buckets: str = ""
    """The path in the claim of the folder of all buckets; if empty, ``INSTALLATION/buckets``."""
    work_bytes_max: int | None = None
    """Limit of each folder on a node's disk that a pod has: its working folder, ``/tmp`` and the
    metric files of a trial.  A kubelet evicts pods above this limit.  None: no limit."""
    shm_bytes: int | None = None
    """Size of ``/dev/shm``; None: the memory of the container."""
    launcher_cpu: str = "100m"
    """The CPUs that a launcher requests, and with the policy ``best-effort`` every replica."""
    launcher_memory: str = "64Mi"
    """The memory that a launcher requests, and with the policy ``best-effort`` every replica."""
    enqueued_max: int = 1000
    start_timeout_s: float = 900.0
    """Seconds within which all pods of an attempt must run, after Kueue admitted the attempt."""
    image_timeout_s: float = 300.0
    """Seconds for which a pod may wait for an image that its node cannot pull."""
    lost_after_s: float = 90.0
    """Seconds to wait for the records of an attempt whose pods are gone."""
    poll_s: float = 60.0
    """Seconds between two complete lists of a few objects, and the longest watch of changes; of
    thousands of objects, lists are less frequent."""
    usage_s: float = 10.0
    """Seconds between two samples of the usage of replicas; 0: no samples."""
    grace_s: float = 10.0
    grace_s_max: float = 300.0
    """Seconds to which longer grace periods of orders are cut: pods fix the limit at creation."""
    hang_s: float | None = None
    hang_stacks: bool = True
    log_bytes_per_s_max: int | None = None
    log_bytes_max: int | None = None
    package_bytes_max: int | None = None
    relax_pins: bool = False

    def queue_of(self, project: str) -> str:
        """Return the LocalQueue of a project; empty: its jobs do not use Kueue."""
        if isinstance(self.queue, str):
            return self.queue
        return self.queue.get(project, self.queue.get("*", ""))


def read(table: Mapping[str, Any]) -> KubernetesOptions:
    """Read the options of a table.  Raises UsageFault."""
    READERS.check_names(table, [setting.name for setting in fields(KubernetesOptions)])
    READERS.require(table, "spool", "the folder of the claim, as the server sees it")
    READERS.require(table, "claim", "the PersistentVolumeClaim that server and pods share")
    options = KubernetesOptions(
        **{name: _read_setting(name, value) for name, value in table.items()}
    )
    if options.grace_s > options.grace_s_max:
        accepted = f"at least grace_s ({options.grace_s:g})"
        raise READERS.refuse("grace_s_max", accepted, options.grace_s_max)
    if options.image_timeout_s >= options.start_timeout_s:
        accepted = f"less than start_timeout_s ({options.start_timeout_s:g})"
        raise READERS.refuse("image_timeout_s", accepted, options.image_timeout_s)
    return options


def wishes_of(wants: Mapping[str, str], options: KubernetesOptions) -> dict[str, str]:
    """Return the options in the labels of a job.  Raises UsageFault for a refused one."""
    wishes = {
        name.removeprefix(WISH): text for name, text in wants.items() if name.startswith(WISH)
    }
    for name, text in wishes.items():
        if name not in options.wishes:
            accepted = ", ".join(f"{WISH}{wish}" for wish in options.wishes) or "none"
            raise UsageFault(
                f"the engine does not accept the label {WISH}{name}; accepted are: {accepted} "
                "(the administrator permits labels by `wishes` in the [[engine]] table)"
            )
        _check_wish(name, text)
    return wishes


@dataclass(frozen=True, slots=True, kw_only=True)
class PodScheduling:
    """The names that decide when the pods of an attempt get nodes; empty: not set."""

    queue: str = ""
    """Kueue's LocalQueue; empty: without Kueue."""
    priority_class: str = ""
    workload_priority_class: str = ""
    """Kueue's; ignored without a queue."""


def choose_scheduling(
    wants: Mapping[str, str], project: str, options: KubernetesOptions
) -> PodScheduling:
    """Return the scheduling of a job by its labels, else by the settings.  Raises UsageFault."""
    wishes = wishes_of(wants, options)
    return PodScheduling(
        queue=wishes.get("queue") or options.queue_of(project),
        priority_class=wishes.get("priority-class") or options.priority_class,
        workload_priority_class=wishes.get("workload-priority-class")
        or options.workload_priority_class,
    )


def _read_setting(name: str, value: Any) -> Any:
    reader: Reader = _READERS.get(name, READERS.read_text)
    return reader(name, value)


def _check_wish(name: str, text: str) -> None:
    try:
        if READERS.read_dns_name(name, text):
            return
    except UsageFault:
        pass
    accepted = "a name of Kubernetes: lowercase letters, digits, inner dashes and dots"
    raise UsageFault(f"the label {WISH}{name} must be {accepted}, got {text!r}")


def _read_queue(name: str, value: Any) -> str | dict[str, str]:
    if isinstance(value, Mapping):
        return READERS.read_table(name, value, READERS.read_dns_name)
    return READERS.read_dns_name(name, value)


def _read_wishes(name: str, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, list | tuple)
    refused = [wish for wish in value if wish not in WISHES] if is_list else [value]
    if refused:
        raise READERS.refuse(name, f"a list of {', '.join(WISHES)}", refused[0])
    return tuple(value)


def _read_pull_policy(name: str, value: Any) -> str:
    if value not in PULL_POLICIES:
        raise READERS.refuse(name, f"one of {', '.join(PULL_POLICIES[1:])}", value)
    return str(value)


def _read_path_in_claim(name: str, value: Any) -> str:
    text = READERS.read_text(name, value).strip("/")
    is_below = bool(_RELATIVE_PATH.fullmatch(text)) and not {".", ".."} & set(text.split("/"))
    if text and not is_below:
        raise READERS.refuse(name, "a path in the claim, such as datasets/buckets", value)
    return text


def _read_grace_max(name: str, value: Any) -> float:
    seconds = READERS.read_seconds(name, value)
    if seconds > GRACE_S_LIMIT:
        raise READERS.refuse(name, f"a number from 0 to {GRACE_S_LIMIT:g}", value)
    return seconds


_READERS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(("spool", "kubeconfig", "docker_config", "ca_file"), READERS.read_folder),
    **dict.fromkeys(("claim", "priority_class", "workload_priority_class"), READERS.read_dns_name),
    "namespace": READERS.read_dns_label,
    "queue": _read_queue,
    "wishes": _read_wishes,
    "image_pull_policy": _read_pull_policy,
    "image_pull_secrets": partial(READERS.read_texts, read_text=READERS.read_dns_name),
    "node_selector": read_selector,
    "tolerations": read_tolerations,
    "gpus": read_gpus,
    "policy": READERS.read_policy,
    "security": read_security,
    "buckets": _read_path_in_claim,
    **dict.fromkeys(("launcher_cpu", "launcher_memory"), READERS.read_quantity),
    **dict.fromkeys(("registry", "hang_stacks", "relax_pins"), READERS.read_switch),
    **dict.fromkeys(("work_bytes_max", "shm_bytes"), partial(READERS.read_count, minimum=1)),
    **dict.fromkeys(
        ("enqueued_max", "log_bytes_per_s_max", "log_bytes_max", "package_bytes_max"),
        READERS.read_count,
    ),
    "usage_s": READERS.read_sample_time,
    **dict.fromkeys(
        ("start_timeout_s", "image_timeout_s", "lost_after_s", "poll_s", "grace_s", "hang_s"),
        READERS.read_seconds,
    ),
    "grace_s_max": _read_grace_max,
}
