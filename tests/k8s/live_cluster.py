"""A cluster of the tests' own whose pods are processes: an API server, controllers, and nodes."""

import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from k8s.emulator.api import ADMIN_TOKEN, EmulatedApi, write_kubeconfig
from k8s.emulator.control_plane import ControlPlane
from k8s.emulator.controllers.objects import status_of
from k8s.emulator.controllers.times import QUICK
from k8s.emulator.pods.images import ContainerImage, ImageShelf
from k8s.emulator.pods.logs import PodLogs
from k8s.emulator.pods.runtime import ProcessRuntime
from k8s.emulator.pods.volumes import ClaimFolders
from k8s.emulator.statuses import NotFound
from k8s.scripted_cluster import KUEUE_WEBHOOK
from k8s.world import connect_to
from trainshed.engines.kubernetes.runtime import architecture

DEADLINE_S = 60.0
POLL_S = 0.02
#: The names of the cluster's threads; those that answer requests have a number in theirs.
THREADS = frozenset({"api-server", "container-end", "emulator-controllers", "garbage-collector"})
MACHINE = "localhost/machine:1"
"""An image that is this machine's own root folder."""


@contextmanager
def running_cluster(folder, *, times=QUICK, tls=None, make_runtime=ProcessRuntime):
    """A cluster with one node of 64 CPUs; what it runs ends with the block."""
    cluster = LiveCluster(folder, times, tls, make_runtime)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


class LiveCluster:
    namespace = "default"
    image = MACHINE
    """An image with a shell."""
    stand_in = ""
    """An image with Python that runs in the place of the jobs' own; empty: nodes have their own."""

    def __init__(self, folder, times, tls=None, make_runtime=ProcessRuntime):
        self.folder = folder
        self.api = EmulatedApi(tls=tls)
        self.store = self.api.store
        self.api.admission.webhooks.append(KUEUE_WEBHOOK)
        self.images, self.claims = ImageShelf(), ClaimFolders()
        self.images.add(MACHINE, ContainerImage(Path("/")))
        self.runtime = make_runtime(folder / "pods", self.claims, self._read)
        self.plane = ControlPlane(self.store, self.runtime, self.images, times=times)
        cache = self.plane.parts.cache
        self.api.server.handlers.logs = PodLogs(cache, self.plane.find_log)

    def start(self):
        self.runtime.open_network()
        self.api.start()
        self.plane.start()
        self.add_node("node-1")

    def end(self):
        try:
            self.plane.stop()
        finally:
            self.runtime.close()
            self.api.stop()

    @property
    def control(self):
        """The cluster itself, whose parts tests may stop; see ``given_cluster``."""
        return self

    def connect(self, token=ADMIN_TOKEN):
        """A client with the rights of one of the cluster's users."""
        return connect_to(self.api, token)

    def open_claim(self, name):
        """Add a claim; its name and its folder."""
        return name, self.add_claim(name)

    def make_settings(self, folder, claim, token=ADMIN_TOKEN):
        """The settings of an engine; its kubeconfig in ``folder`` names one user of the cluster."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "kubeconfig"
        path.unlink(missing_ok=True)
        return {
            "kubeconfig": str(write_kubeconfig(path, self.api.url, token)),
            "claim": claim,
            "spool": str(self.folder / "claims" / self.namespace / claim),
        }

    @property
    def is_answering(self):
        return self.api.server.is_running

    def stop_api(self):
        """Cut all connections; nodes and controllers go on."""
        self.api.server.stop()

    def start_api(self):
        self.api.server.start()

    def cordon_all(self, *, is_cordoned):
        """Let no node accept new pods, or let all of them."""
        nodes, _ = self.store.list("Node", None)
        for node in nodes:
            self.plane.cordon(node["metadata"]["name"], is_cordoned=is_cordoned)

    def kill_container(self, pod, name):
        """End the processes of a container; nothing else of its pod."""
        self.runtime.signal(pod["metadata"]["uid"], name, signal.SIGKILL)

    def list_threads(self):
        """The cluster's own threads in this process."""
        return [
            thread
            for thread in threading.enumerate()
            if thread.name in THREADS or "process_request_thread" in thread.name
        ]

    def add_node(self, name, *, labels=None, **more):
        """A node of this machine's architecture with 64 CPUs."""
        labels = {"kubernetes.io/arch": architecture(), **(labels or {})}
        return self.plane.add_node(name, {"cpu": 64, "memory": "64Gi"}, labels=labels, **more)

    def add_claim(self, name, namespace="default", **more):
        """A bound claim; its folder."""
        folder = self.folder / "claims" / namespace / name
        folder.mkdir(parents=True)
        folder.chmod(0o711)
        self.claims.add(namespace, name, folder, **more)
        create_claim_object(self.store, name, namespace)
        return folder

    def create_pod(self, name, *containers, **spec):
        """A pod whose containers are shell scripts, or rows of a manifest."""
        rows = [
            row if isinstance(row, dict) else shell(row, name=f"c{number}")
            for number, row in enumerate(containers)
        ]
        body = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": rows}
        meta = {"name": name, "namespace": "default"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**body, **spec}}
        return self.store.create(pod)

    def pod(self, name):
        return self.store.get("Pod", "default", name)

    def log(self, name, container="c0"):
        path = self.plane.find_log(self.pod(name), container)
        return path.read_text() if path else ""

    def wait_for(self, true, what="the condition"):
        """What ``true`` gives once it is true; its NotFound counts as not yet."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                if value := true():
                    return value
            except NotFound:
                pass
            assert not self.plane.parts.loop.failures, self.plane.parts.loop.failures
            assert time.monotonic() < deadline_s, f"waited {DEADLINE_S} s for {what}"
            time.sleep(POLL_S)

    def wait_for_phase(self, name, *phases):
        return self.wait_for(
            lambda: self.phase(name) in phases and self.pod(name),
            f"{name} to be {' or '.join(phases)}",
        )

    def wait_for_removal(self, kind, name):
        self.wait_for(lambda: not self.is_there(kind, name), f"{kind} {name} to go")

    def is_there(self, kind, name):
        try:
            return bool(self.store.get(kind, "default", name))
        except NotFound:
            return False

    def phase(self, name):
        return status_of(self.pod(name)).get("phase")

    def end_of(self, name, container="c0"):
        """A container's last state in a pod that has ended."""
        rows = self.wait_for_phase(name, "Succeeded", "Failed")["status"]["containerStatuses"]
        return next(row["state"]["terminated"] for row in rows if row["name"] == container)

    def _read(self, namespace, kind, name):
        return self.plane.parts.cache.get(kind, (namespace, name))


def shell(script, *, name="c0", image=MACHINE, **more):
    """A container of a manifest that runs a script in a shell."""
    return {"name": name, "image": image, "command": ["/bin/sh", "-c", script], **more}


def create_claim_object(store, name, namespace="default"):
    """Create a PersistentVolumeClaim that is bound."""
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    claim = store.create(body)
    store.update({**claim, "status": {"phase": "Bound"}}, subresource="status")
