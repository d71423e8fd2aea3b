"""A cluster on paper: pods of a JobSet run from its creation on, and no process is started.

Thousands of pods fit on it.  It has an API server and the collector of garbage, and no controller:
it writes pods, events, and the records that the launchers would write on the claim.  JobSets that
are not of a server of Trainshed get no pods.
"""

import copy
import itertools
import queue
import threading
from contextlib import contextmanager, suppress

from k8s.emulator.api import EmulatedApi
from k8s.emulator.controllers.job_plan import INDEX
from k8s.emulator.controllers.loop import WallClock
from k8s.emulator.controllers.nodes import add_node
from k8s.emulator.controllers.objects import labels_of, owner_reference, stamp, uid_of
from k8s.emulator.controllers.recorder import NORMAL, EventRecorder
from k8s.emulator.pods.pod_status import compose_pod_status, compose_running
from k8s.emulator.statuses import NotFound
from k8s.live_cluster import create_claim_object
from k8s.serving import SERVER_CLAIM
from trainshed.engines.kubernetes import names
from trainshed.engines.kubernetes.runtime import architecture
from trainshed.engines.kubernetes.state.objects import JOBSET_UID, RESTART, ROLE
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.records import Began, Ready, append
from trainshed.engines.warden.hold import create_claim

NODE = "node-1"
NODE_SIZE = {"cpu": 64, "memory": "256Gi"}
KUBELET, SCHEDULER = "kubelet", "default-scheduler"
HISTORY = 200_000
#: What a cluster tells of a pod that starts, by component.
TALES = (
    (SCHEDULER, "Scheduled", "Successfully assigned default/{name} to node-1"),
    (KUBELET, "Created", "Container created"),
    (KUBELET, "Started", "Container started"),
)


@contextmanager
def running_paper_cluster(folder, *, tls=None):
    """A cluster on paper with one claim; it ends with the block."""
    cluster = PaperCluster(folder, tls)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


class PaperCluster:
    """``spool`` is the folder of the claim; ``pod_count`` pods run."""

    def __init__(self, folder, tls=None):
        self.api = EmulatedApi(history_limit=HISTORY, tls=tls)
        self.store = self.api.store
        self.spool = folder / "claim"
        self.spool.mkdir()
        self.spool.chmod(0o711)
        self.pod_count = 0
        self._recorder = EventRecorder(self.store, WallClock())
        self._addresses = itertools.count(2)
        self._work = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._follow, name="paper-cluster")
        self.store.subscribe(lambda change, obj: self._work.put((change, obj)))

    def start(self):
        self.api.start()
        add_node(
            self.store,
            NODE,
            resources=NODE_SIZE,
            labels={"kubernetes.io/arch": architecture()},
        )
        create_claim_object(self.store, SERVER_CLAIM)
        self._thread.start()

    def stop(self):
        self._work.put(None)
        self._thread.join()
        self.api.stop()

    def folder_of(self, jobset):
        """The folder of the attempt whose JobSet this is."""
        labels = jobset["metadata"]["labels"]
        key = (labels[names.JOB], labels[names.ATTEMPT])
        return AttemptFolder(self.spool / labels[names.INSTALLATION] / "jobs" / "/".join(key))

    def _follow(self):
        while (row := self._work.get()) is not None:
            change, obj = row
            if change == "ADDED" and obj["kind"] == "JobSet" and names.JOB in labels_of(obj):
                self._run(obj)
            elif obj["kind"] == "Pod" and obj["metadata"].get("deletionTimestamp"):
                self._remove(obj)

    def _run(self, jobset):
        pods = [
            self._create_pod(jobset, role, index)
            for role in jobset["spec"]["replicatedJobs"]
            for index in range(role["template"]["spec"]["completions"])
        ]
        folder = self.folder_of(jobset)
        create_claim(folder, uid_of(pods[0]).encode())
        append(folder.records, Began(1, 1, "boot"), durably=False)
        append(folder.records, Ready(tuple(_name_task(pod) for pod in pods)), durably=False)
        self.pod_count += len(pods)

    def _create_pod(self, jobset, role, index):
        job = role["template"]
        template = copy.deepcopy(job["spec"]["template"])
        name = f"{jobset['metadata']['name']}-{role['name']}-0-{index}-abcde"
        metadata = template.get("metadata") or {}
        labels = {
            **job["metadata"]["labels"],
            **metadata.get("labels", {}),
            JOBSET_UID: uid_of(jobset),
            RESTART: "0",
            ROLE: role["name"],
            INDEX: str(index),
        }
        meta = {
            **metadata,
            "name": name,
            "namespace": jobset["metadata"]["namespace"],
            "labels": labels,
            "annotations": {**metadata.get("annotations", {}), INDEX: str(index)},
            "ownerReferences": [owner_reference(jobset)],
        }
        spec = template["spec"]
        pod = self.store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        pod["spec"]["nodeName"] = NODE
        pod = self.store.update(pod, subresource="binding")
        self._report(pod)
        for source, reason, message in TALES:
            self._recorder.record(pod, NORMAL, reason, message.format(name=name), source)
        return pod

    def _report(self, pod):
        now_s = self.store.clock()
        states = {row["name"]: compose_running(now_s) for row in pod["spec"]["containers"]}
        address = "10.{}.{}.{}".format(*next(self._addresses).to_bytes(3, "big"))
        status = compose_pod_status(pod, states, now_s, address=address, host="192.168.0.1")
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(now_s)}
        status["conditions"].append(scheduled)
        self.store.update({**pod, "status": status}, subresource="status")

    def _remove(self, pod):
        metadata = pod["metadata"]
        with suppress(NotFound):
            self.store.delete("Pod", metadata["namespace"], metadata["name"], grace_s=0)
            self.pod_count -= 1


def _name_task(pod):
    return "{}-{}".format(pod["metadata"]["labels"][ROLE], pod["metadata"]["labels"][INDEX])
