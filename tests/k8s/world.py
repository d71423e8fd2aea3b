"""The world of the contract of engines on an emulated cluster whose pods are processes."""

import secrets
from contextlib import contextmanager
from dataclasses import replace

import urllib3

from engines.attempts import lines
from k8s.emulator.api import ADMIN_TOKEN
from k8s.live_cluster import MACHINE, shell
from trainshed.engines.base import EngineContext
from trainshed.engines.kubernetes import factory, names, options
from trainshed.engines.kubernetes.api.access import ClusterAccess, ClusterSession
from trainshed.engines.kubernetes.api.client import BYTES_MAX, Client
from trainshed.engines.kubernetes.api.requests import RequestLimits
from trainshed.engines.kubernetes.api.transport import Transport
from trainshed.engines.kubernetes.runtime import architecture
from trainshed.model.launch_plan import ContainerPlan
from trainshed.testing.engine_world import ShellWorld

CLAIM = "spool"
BUCKET = "contract"


def connect_to(api, token=ADMIN_TOKEN):
    """A client of the emulated API server, with the token of one of its users."""
    headers = {"Authorization": f"Bearer {token}"}

    def load():
        return ClusterSession(api.url, urllib3.PoolManager(), lambda: headers, "default")

    return Client(Transport(ClusterAccess(load), RequestLimits(), BYTES_MAX))


class _Blindfolded:
    """A client whose lists are empty, with the version of the real ones, while a test says so."""

    def __init__(self, client, is_empty):
        self._client, self._is_empty = client, is_empty

    def __getattr__(self, name):
        return getattr(self._client, name)

    def get(self, path, query=None):
        answer = self._client.get(path, query)
        return {**answer, "items": []} if self._is_empty() and "items" in answer else answer


class KubernetesWorld(ShellWorld):
    """One installation on the cluster; its programs communicate with the test in a bucket."""

    limits_memory = False

    def __init__(self, cluster, folder):
        self._cluster = cluster
        self._base = folder
        self.token = ADMIN_TOKEN
        self._names = [secrets.token_hex(4) for _ in range(2)]
        self.claim = f"{CLAIM}-{self._names[0]}"
        self.root = cluster.add_claim(self.claim)
        self._buckets = self.root / self._names[0] / "buckets" / BUCKET
        for path in (self.root / self._names[0], self._buckets.parent, self._buckets):
            path.mkdir(mode=0o711)
        self._buckets.chmod(0o777)
        super().__init__(self._buckets)
        self._opened = []
        self._is_empty = False

    def engine(self):
        return self.open()

    def open(self, **settings):
        """The engine with more settings."""
        return self._open(self._names[0], **settings)

    def elsewhere(self):
        return self._open(self._names[1])

    def _open(self, installation, **more):
        context = EngineContext(
            jobs_dir=self._base / installation / "jobs",
            name="kubernetes",
            installation=installation,
            buckets=self._base / "buckets",
        )
        settings = options.read(
            {
                "spool": str(self.root),
                "claim": self.claim,
                "lost_after_s": 2.0,
                "poll_s": 5.0,
                "launcher_cpu": "",
                "launcher_memory": "",
                "registry": False,
                **more,
            }
        )
        client = _Blindfolded(connect_to(self._cluster.api, self.token), lambda: self._is_empty)
        engine = factory.make_with_client(context, settings, client, "kubernetes")
        self._opened.append(engine)
        engine.fleet()
        if self._cluster.api.server.is_running:
            self._cluster.wait_for(lambda: engine.is_synced, "the first lists")
        return engine

    def plan(self, key, *programs):
        """The plan with an image for each replica, and the files of the bucket as pods see them."""
        plan = super().plan(key, *programs)
        text, inside = str(self._buckets), f"/gcs/{BUCKET}"
        replicas = [
            replace(
                row,
                argv=(),
                env={name: value.replace(text, inside) for name, value in row.env.items()},
                container=ContainerPlan(image=MACHINE, command=row.argv, args=()),
            )
            for row in plan.replicas
        ]
        return replace(plan, replicas=tuple(replicas), binds=((text, inside),))

    def close(self):
        """End the threads of all engines, then whatever a failed test has left."""
        for engine in self._opened:
            engine.close()
        for jobset in self._list("JobSet"):
            self._cluster.store.delete("JobSet", "default", jobset["metadata"]["name"])
        self._cluster.wait_for(lambda: not self._list("Pod"), "all pods to go")

    @property
    def jobs(self):
        """Where its attempts have their folders."""
        return self.root / self._names[0] / "jobs"

    def name_of(self, key):
        return names.name_of(self._names[0], key)

    def pods_of(self, key):
        labels = names.labels_of(self._names[0], key)
        return [
            pod for pod in self._list("Pod") if labels.items() <= pod["metadata"]["labels"].items()
        ]

    def lines(self, key):
        return lines(self.jobs, key)

    def lose(self, key):
        """The JobSet is deleted by somebody else, and its pods without any grace period."""
        store = self._cluster.store
        pods = self.pods_of(key)
        store.delete("JobSet", "default", self.name_of(key), propagation="Orphan")
        for pod in pods:
            store.delete("Pod", "default", pod["metadata"]["name"], grace_s=0)
        self._cluster.wait_for(lambda: not self.pods_of(key), "the pods to go")

    @contextmanager
    def leftover(self, key):
        """A pod that bears the labels of an attempt, and has no folder and no JobSet."""
        name = f"{self.name_of(key)}-left"
        row = {**shell("exec sleep 600"), "name": "main"}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/arch": architecture()},
            "containers": [row],
        }
        meta = {
            "name": name,
            "namespace": "default",
            "labels": names.labels_of(self._names[0], key),
        }
        store = self._cluster.store
        store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        try:
            self._cluster.wait_for_phase(name, "Running")
            yield
        finally:
            store.delete("Pod", "default", name, grace_s=0)
            self._cluster.wait_for_removal("Pod", name)

    @contextmanager
    def away(self):
        """Neither the API answers, nor can be opened what attempts have recorded."""
        paths = list(self.jobs.glob("*/*/records.jsonl"))
        self._cluster.api.server.stop()
        for path in paths:
            path.rename(path.with_suffix(".aside"))
            path.symlink_to(path)
        try:
            yield
        finally:
            for path in paths:
                path.with_suffix(".aside").rename(path)
            self._cluster.api.server.start()

    @contextmanager
    def busy(self):
        """No node accepts new pods."""
        self._cordon(is_cordoned=True)
        try:
            yield
        finally:
            self._cordon(is_cordoned=False)

    def _cordon(self, *, is_cordoned):
        for node in self._list("Node", None):
            name = node["metadata"]["name"]
            self._cluster.plane.cordon(name, is_cordoned=is_cordoned)

    @contextmanager
    def empty(self):
        """Every list that an engine gets is empty, and well formed."""
        self._is_empty = True
        try:
            yield
        finally:
            self._is_empty = False

    def evict(self, key):
        """All pods of an attempt are drained."""
        for pod in self.pods_of(key):
            self._cluster.plane.evict("default", pod["metadata"]["name"])

    def _list(self, kind, namespace="default"):
        rows, _ = self._cluster.store.list(kind, namespace)
        return rows
