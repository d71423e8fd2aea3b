"""A LocalQueue of Kueue with CPUs, for jobs of whole engines."""

from k8s.kueue_objects import create_kueue


def create_queue(cluster, name, *, cpus="32"):
    """A LocalQueue whose ClusterQueue and flavor have its name, unless it is there."""
    if cluster.is_there("LocalQueue", name):
        return
    create_kueue(cluster, "ResourceFlavor", {"metadata": {"name": name}, "spec": {}})
    resources = [
        {"name": "cpu", "nominalQuota": cpus},
        {"name": "memory", "nominalQuota": "64Gi"},
    ]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": name, "resources": resources}],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    create_kueue(cluster, "ClusterQueue", {"metadata": {"name": name}, "spec": spec})
    meta = {"name": name, "namespace": "default"}
    create_kueue(cluster, "LocalQueue", {"metadata": meta, "spec": {"clusterQueue": name}})
