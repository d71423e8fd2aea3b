"""The paths of the API's objects that the engine uses."""

from typing import Final

NODES: Final = "/api/v1/nodes"
JOBSETS_GROUP: Final = "/apis/jobset.x-k8s.io/v1alpha2"
KUEUE_GROUP: Final = "/apis/kueue.x-k8s.io"


def jobsets(namespace: str) -> str:
    """Return the path of all JobSets of a namespace."""
    return f"{JOBSETS_GROUP}/namespaces/{namespace}/jobsets"


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


def workloads(namespace: str, version: str) -> str:
    """Return the path of Kueue's Workloads of a namespace; ``version`` is that of Kueue's API."""
    return f"{KUEUE_GROUP}/{version}/namespaces/{namespace}/workloads"
