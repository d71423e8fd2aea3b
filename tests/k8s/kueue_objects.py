"""Queues, flavors and priority classes of Kueue for the emulator's tests."""

POOL, ACCELERATOR = "example.com/pool", "nvidia.com/gpu"


def one_node(cluster):
    cluster.add_node(labels={POOL: "a"})


def queues(cluster):
    """A queue of four GPUs that prefers high priorities, and one that is held."""
    one_node(cluster)
    flavor = {"metadata": {"name": "h200"}, "spec": {"nodeLabels": {POOL: "a"}}}
    create_kueue(cluster, "ResourceFlavor", flavor)
    for name, policy in (("train", "None"), ("held", "Hold")):
        create_kueue(cluster, "ClusterQueue", cluster_queue(name, policy))
    for name, value in (("low", 10), ("high", 1000)):
        create_kueue(cluster, "WorkloadPriorityClass", {"metadata": {"name": name}, "value": value})


def cluster_queue(name, policy):
    quota = {"name": ACCELERATOR, "nominalQuota": "4"}
    group = {
        "coveredResources": [ACCELERATOR],
        "flavors": [{"name": "h200", "resources": [quota]}],
    }
    spec = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
        "stopPolicy": policy,
    }
    return {"metadata": {"name": name}, "spec": spec}


def create_kueue(cluster, kind, body):
    cluster.store.create({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **body})
