"""The paths of the API's objects that the engine uses."""

from typing import Final

#: The groups of JobSet and Kueue, and the version of JobSet that the engine writes.
JOBSET: Final = "jobset.x-k8s.io"
JOBSET_VERSION: Final = "v1alpha2"
KUEUE: Final = "kueue.x-k8s.io"

VERSION: Final = "/version"
NODES: Final = "/api/v1/nodes"
JOBSET_GROUP: Final = f"/apis/{JOBSET}"
KUEUE_GROUP: Final = f"/apis/{KUEUE}"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def namespace(name: str) -> str:
    """Return the path of a namespace."""
    return f"/api/v1/namespaces/{name}"


def jobsets(namespace: str) -> str:
    """Return the path of all JobSets of a namespace."""
    return f"{JOBSET_GROUP}/{JOBSET_VERSION}/namespaces/{namespace}/jobsets"


def jobset(namespace: str, name: str) -> str:
    """Return the path of one JobSet."""
    return f"{jobsets(namespace)}/{name}"


def secrets(namespace: str) -> str:
    """Return the path of all Secrets of a namespace."""
    return f"/api/v1/namespaces/{namespace}/secrets"


def secret(namespace: str, name: str) -> str:
    """Return the path of one Secret."""
    return f"{secrets(namespace)}/{name}"


def pods(namespace: str) -> str:
    """Return the path of all pods of a namespace."""
    return f"/api/v1/namespaces/{namespace}/pods"


def events(namespace: str) -> str:
    """Return the path of all events of a namespace."""
    return f"/api/v1/namespaces/{namespace}/events"


def claim(namespace: str, name: str) -> str:
    """Return the path of one PersistentVolumeClaim."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"


def local_queue(namespace: str, version: str, name: str) -> str:
    """Return the path of one of Kueue's LocalQueues; ``version`` is that of Kueue's API."""
    return f"{KUEUE_GROUP}/{version}/namespaces/{namespace}/localqueues/{name}"


def workloads(namespace: str, version: str) -> str:
    """Return the path of Kueue's Workloads of a namespace; ``version`` is that of Kueue's API."""
    return f"{KUEUE_GROUP}/{version}/namespaces/{namespace}/workloads"
