"""All controllers of the emulator over one store, with the nodes on which pods run."""

from contextlib import suppress

from k8s.emulator.controllers.cluster_parts import ClusterParts
from k8s.emulator.controllers.job import JobController
from k8s.emulator.controllers.jobset import JobSetController
from k8s.emulator.controllers.kueue_jobs import KueueJobs
from k8s.emulator.controllers.kueue_queues import KueueQueues
from k8s.emulator.controllers.nodes import NodeLifecycle, add_node, disrupt
from k8s.emulator.controllers.objects import POD_KIND, is_deleting, key_of, uid_of
from k8s.emulator.controllers.scheduler import PodScheduler
from k8s.emulator.pods.kubelet import Kubelets
from k8s.emulator.statuses import NotFound

EVICTION = ("EvictionByEvictionAPI", "Eviction API: evicting")


class ControlPlane:
    """``runtime`` runs containers, ``images`` are those that nodes can have."""

    def __init__(self, store, runtime, images, *, times=None, clock=None):
        self.parts = parts = ClusterParts.over(store, clock=clock, times=times)
        self.lifecycle = NodeLifecycle(parts)
        self.kubelets = Kubelets(parts, runtime, images, self.lifecycle)
        self._runtime = runtime
        for controller in (
            JobSetController(parts),
            JobController(parts),
            PodScheduler(parts),
            self.kubelets,
            self.lifecycle,
            KueueJobs(parts),
            KueueQueues(parts),
        ):
            parts.loop.add(controller)

    def start(self):
        self.parts.loop.start()

    def stop(self):
        """End the controllers, then every process of every pod; raise a controller's failure."""
        try:
            self.parts.loop.stop()
        finally:
            self.kubelets.end()

    def add_node(self, name, resources, *, labels=None, taints=()):
        return add_node(self.parts.store, name, resources=resources, labels=labels, taints=taints)

    def cordon(self, name, *, is_cordoned=True):
        """Keep new pods off a node, or let them come again."""

        def change(node):
            node["spec"].pop("unschedulable", None)
            if is_cordoned:
                node["spec"]["unschedulable"] = True

        self.parts.store.modify("Node", None, name, change)

    def drain(self, name):
        """Cordon a node and evict its pods, as ``kubectl drain`` does."""
        self.cordon(name)
        for pod in self.parts.cache.all_of(POD_KIND):
            if pod["spec"].get("nodeName") == name and not is_deleting(pod):
                self.evict(*key_of(pod))

    def evict(self, namespace, name):
        """What the API server does when the Eviction of a pod is posted."""
        with suppress(NotFound):
            pod = disrupt(self.parts, self.parts.store.get(POD_KIND, namespace, name), *EVICTION)
            self.parts.store.delete(
                POD_KIND, namespace, name, uid=uid_of(pod), propagation="Background"
            )

    def kill_node(self, name):
        """End all processes of a node at once; the control plane learns nothing of it."""
        self.kubelets.kill_node(name)

    def silence_node(self, name):
        self.kubelets.silence_node(name)

    def revive_node(self, name):
        self.kubelets.revive_node(name)

    def find_log(self, pod, container):
        """The file of what a pod's container has written, or None where it never started."""
        return self._runtime.log_path(uid_of(pod), container)
