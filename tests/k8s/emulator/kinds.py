"""The kinds of objects that the emulator serves: their names, versions and subresources."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

CORE = ""
BATCH = "batch"
JOBSET = "jobset.x-k8s.io"
KUEUE = "kueue.x-k8s.io"
STANDARD_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind.  ``versions`` are the served versions; the store keeps objects in the first."""

    kind: str
    plural: str
    group: str = CORE
    versions: tuple[str, ...] = ("v1",)
    is_namespaced: bool = True
    has_status: bool = False
    has_generation: bool = False
    is_custom: bool = False
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return self.get_api_version(self.versions[0])

    @property
    def qualified_plural(self) -> str:
        """``jobsets.jobset.x-k8s.io``, as messages name a resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def get_api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version


def _make_core(kind: str, plural: str, **more) -> Resource:
    return Resource(kind, plural, **more)


def _make_custom(kind: str, plural: str, group: str, versions: tuple[str, ...], **more) -> Resource:
    values = {"has_status": True, "has_generation": True, "is_custom": True, **more}
    return Resource(kind, plural, group, versions, **values)


def _make_role(kind: str, plural: str, **more) -> Resource:
    """A kind that the emulator only stores: ``Access`` has the rules of users."""
    return Resource(kind, plural, "rbac.authorization.k8s.io", **more)


_KUEUE_VERSIONS = ("v1beta2", "v1beta1")

RESOURCES: tuple[Resource, ...] = (
    _make_core(
        "Pod",
        "pods",
        has_status=True,
        has_generation=True,
        short_names=("po",),
        subresources=("status", "log", "eviction", "binding"),
    ),
    _make_core("Secret", "secrets"),
    _make_core("ConfigMap", "configmaps", short_names=("cm",)),
    _make_core("Event", "events", short_names=("ev",)),
    _make_core("Node", "nodes", is_namespaced=False, has_status=True, short_names=("no",)),
    _make_core(
        "Namespace", "namespaces", is_namespaced=False, has_status=True, short_names=("ns",)
    ),
    _make_core("Service", "services", has_status=True, short_names=("svc",)),
    _make_core("ServiceAccount", "serviceaccounts", short_names=("sa",)),
    _make_core(
        "PersistentVolumeClaim", "persistentvolumeclaims", has_status=True, short_names=("pvc",)
    ),
    _make_core("ResourceQuota", "resourcequotas", has_status=True, short_names=("quota",)),
    _make_core("LimitRange", "limitranges", short_names=("limits",)),
    Resource("Job", "jobs", BATCH, has_status=True, has_generation=True),
    Resource("StatefulSet", "statefulsets", "apps", has_status=True, has_generation=True),
    _make_role("Role", "roles", is_namespaced=True),
    _make_role("RoleBinding", "rolebindings", is_namespaced=True),
    _make_role("ClusterRole", "clusterroles", is_namespaced=False),
    _make_role("ClusterRoleBinding", "clusterrolebindings", is_namespaced=False),
    Resource(
        "PriorityClass",
        "priorityclasses",
        "scheduling.k8s.io",
        is_namespaced=False,
        has_generation=True,
        short_names=("pc",),
    ),
    Resource("RuntimeClass", "runtimeclasses", "node.k8s.io", is_namespaced=False),
    _make_custom("JobSet", "jobsets", JOBSET, ("v1alpha2",)),
    _make_custom("Workload", "workloads", KUEUE, _KUEUE_VERSIONS, short_names=("wl",)),
    _make_custom(
        "LocalQueue", "localqueues", KUEUE, _KUEUE_VERSIONS, short_names=("queue", "queues", "lq")
    ),
    _make_custom(
        "ClusterQueue",
        "clusterqueues",
        KUEUE,
        _KUEUE_VERSIONS,
        is_namespaced=False,
        short_names=("cq",),
    ),
    _make_custom(
        "ResourceFlavor",
        "resourceflavors",
        KUEUE,
        _KUEUE_VERSIONS,
        is_namespaced=False,
        has_status=False,
        short_names=("flavor", "flavors", "rf"),
    ),
    _make_custom(
        "WorkloadPriorityClass",
        "workloadpriorityclasses",
        KUEUE,
        _KUEUE_VERSIONS,
        is_namespaced=False,
        has_status=False,
    ),
)

BY_KIND: Mapping[str, Resource] = MappingProxyType({r.kind: r for r in RESOURCES})


def list_subresources(resource: Resource) -> Iterable[str]:
    if resource.subresources:
        return resource.subresources
    return ("status",) if resource.has_status else ()
