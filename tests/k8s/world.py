"""The world of the contract of engines on a cluster: the emulated one, or any other."""

import secrets
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest
import urllib3

from engines.attempts import lines
from k8s.emulator.api import ADMIN_TOKEN
from k8s.given_cluster import NEEDS_CONTROL
from trainshed.engines.base import EngineContext
from trainshed.engines.kubernetes import factory, mounts, names, options, paths
from trainshed.engines.kubernetes.api.access import ClusterAccess, ClusterSession
from trainshed.engines.kubernetes.api.client import BYTES_MAX, Client
from trainshed.engines.kubernetes.api.errors import NOT_FOUND, ApiRefused
from trainshed.engines.kubernetes.api.requests import RequestLimits
from trainshed.engines.kubernetes.api.transport import Transport
from trainshed.engines.kubernetes.runtime import architecture
from trainshed.model.launch_plan import ContainerPlan
from trainshed.testing.engine_steps import eventually
from trainshed.testing.engine_world import ShellWorld

BUCKET = "contract"
#: What an attempt whose JobSet was deleted without its dependents leaves, besides its pods.
JOBS, SERVICES = "/apis/batch/v1/namespaces/{}/jobs", "/api/v1/namespaces/{}/services"
CONNECTIONS = 16
FORCED = {"gracePeriodSeconds": 0}
IN_FOREGROUND = {"propagationPolicy": "Foreground"}


def connect_to(api, token=ADMIN_TOKEN):
    """A client of an emulated API server, with the token of one of its users."""
    headers = {"Authorization": f"Bearer {token}"}

    def load():
        pool = urllib3.PoolManager(maxsize=CONNECTIONS)
        return ClusterSession(api.url, pool, lambda: headers, "default")

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
        self._names = [secrets.token_hex(4) for _ in range(2)]
        self._namespace = cluster.namespace
        self.token = ADMIN_TOKEN
        """The token of the user that engines are, on an emulated cluster."""
        self.client = cluster.connect()
        self.claim, self.root = cluster.open_claim(f"spool-{self._names[0]}")
        buckets = self.root / self._names[0] / "buckets" / BUCKET
        for path in (self.root / self._names[0], buckets.parent, buckets):
            path.mkdir(mode=0o711)
        buckets.chmod(0o777)
        super().__init__(buckets, inside=f"{mounts.BUCKETS}/{BUCKET}", metrics=mounts.METRICS)
        self._opened = []
        self._orphaned = []
        self._is_empty = False

    def engine(self):
        return self.open()

    def open(self, **settings):
        """The engine as after a restart of the server, with more settings."""
        return self._open(self._names[0], **settings)

    def elsewhere(self):
        return self._open(self._names[1])

    def _open(self, installation, **more):
        folder = self._base / installation
        folder.mkdir(exist_ok=True)
        context = EngineContext(
            jobs_dir=folder / "jobs",
            name="kubernetes",
            installation=installation,
            buckets=folder / "buckets",
        )
        settings = options.read(
            {
                "spool": str(self.root),
                "claim": self.claim,
                "namespace": self._namespace,
                "lost_after_s": 2.0,
                "poll_s": 5.0,
                "launcher_cpu": "",
                "launcher_memory": "",
                "registry": False,
                **more,
            }
        )
        client = _Blindfolded(self._cluster.connect(self.token), lambda: self._is_empty)
        engine = factory.make_with_client(context, settings, client, "kubernetes")
        self._opened.append(engine)
        engine.fleet()
        if self._cluster.control is None or self._cluster.control.is_answering:
            eventually(lambda: engine.is_synced, "the engine has the first lists")
            has_nodes = can_list(client, paths.NODES)
            eventually(lambda: engine.fleet() or not has_nodes, "it knows the nodes")
        return engine

    def plan(self, key, *programs):
        """The plan with an image for each replica, and the bucket as pods see it."""
        plan = super().plan(key, *programs)
        replicas = [
            replace(
                row,
                argv=(),
                container=ContainerPlan(image=self._cluster.image, command=row.argv, args=()),
            )
            for row in plan.replicas
        ]
        binds = ((str(self._folder), self._inside),)
        return replace(plan, replicas=tuple(replicas), binds=binds)

    def close(self):
        """End the threads of all engines, then whatever a failed test has left."""
        for engine in self._opened:
            engine.close()
        for installation in self._names:
            self._remove_objects({names.INSTALLATION: installation})
            shutil.rmtree(self.root / installation, ignore_errors=True)
        self.client.close()

    def list_own_threads(self):
        control = self._cluster.control
        return [] if control is None else control.list_threads()

    @property
    def jobs(self):
        """Where its attempts have their folders."""
        return self.root / self._names[0] / "jobs"

    @property
    def library(self):
        """The folder with the interpreter of its pods."""
        return self.root / self._names[0] / "lib"

    def name_of(self, key):
        return names.name_of(self._names[0], key)

    def pods_of(self, key):
        """The pods of an attempt; that with the launcher is the first."""
        labels = names.labels_of(self._names[0], key)
        pods = self._list(paths.pods(self._namespace), labels)
        return sorted(pods, key=lambda pod: "-primary-" not in pod["metadata"]["name"])

    def lines(self, key):
        return lines(self.jobs, key)

    def lose(self, key):
        """The JobSet is deleted by somebody else, and its pods without any grace period.

        The launcher ends first: it would record that it has lost the others.
        """
        control = self._require_control("a launcher that ends without a record")
        name, pods = self.name_of(key), self.pods_of(key)
        self._orphaned.append(name)
        self.client.delete(paths.jobset(self._namespace, name), {"propagationPolicy": "Orphan"})
        control.kill_container(pods[0], "launcher")
        for pod in pods:
            self._delete(self._pod_path(pod), FORCED)
        eventually(lambda: not self.pods_of(key), "the pods are gone")

    @contextmanager
    def leftover(self, key):
        """A pod that bears the labels of an attempt, and has no folder and no JobSet."""
        container = {
            "name": "main",
            "image": self._cluster.image,
            "command": ["/bin/sh", "-c", "exec sleep 600"],
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/arch": architecture()},
            "containers": [container],
        }
        name = f"{self.name_of(key)}-left"
        meta = {"name": name, "labels": names.labels_of(self._names[0], key)}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        pod = self.client.post(paths.pods(self._namespace), body)
        try:
            eventually(lambda: self._phase(pod) == "Running", "the pod runs")
            yield
        finally:
            self._delete(self._pod_path(pod), FORCED)
            eventually(lambda: self._phase(pod) is None, "the pod is gone")

    @contextmanager
    def away(self):
        """Neither the API answers, nor can be opened what attempts have recorded."""
        control = self._require_control("an API server that stops")
        paths_of_records = list(self.jobs.glob("*/*/records.jsonl"))
        control.stop_api()
        for path in paths_of_records:
            path.rename(path.with_suffix(".aside"))
            path.symlink_to(path)
        try:
            yield
        finally:
            for path in paths_of_records:
                path.with_suffix(".aside").rename(path)
            control.start_api()

    @contextmanager
    def busy(self):
        """No node accepts new pods."""
        control = self._require_control("nodes that accept no pods")
        control.cordon_all(is_cordoned=True)
        try:
            yield
        finally:
            control.cordon_all(is_cordoned=False)

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
            meta = {field: pod["metadata"][field] for field in ("name", "namespace")}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
            with suppress_absence():
                self.client.post(f"{self._pod_path(pod)}/eviction", body)

    def _require_control(self, what):
        if self._cluster.control is None:
            pytest.skip(f"{NEEDS_CONTROL}: {what}")
        return self._cluster.control

    def _remove_objects(self, labels):
        """Delete all objects with these labels, and wait until the pods are gone."""
        jobs, services = (text.format(self._namespace) for text in (JOBS, SERVICES))
        for path in (paths.jobsets(self._namespace), jobs, paths.secrets(self._namespace)):
            for row in self._list(path, labels):
                self._delete(f"{path}/{row['metadata']['name']}", IN_FOREGROUND)
        for name in self._orphaned:
            self._delete(f"{services}/{name}")
        pods = paths.pods(self._namespace)
        eventually(lambda: not self._list(pods, labels), "all pods are gone")

    def _list(self, path, labels):
        query = {"labelSelector": ",".join(f"{name}={text}" for name, text in labels.items())}
        return self.client.get(path, query)["items"]

    def _delete(self, path, body=None):
        with suppress_absence():
            self.client.delete(path, body)

    def _phase(self, pod):
        """The phase of a pod; None: it does not exist."""
        with suppress_absence():
            return self.client.get(self._pod_path(pod))["status"].get("phase", "")
        return None

    def _pod_path(self, pod):
        return f"{paths.pods(self._namespace)}/{pod['metadata']['name']}"


def can_list(client, path):
    """Whether a list has objects, for a client that may read it."""
    try:
        return bool(client.get(path)["items"])
    except ApiRefused:
        return False


@contextmanager
def suppress_absence():
    """Go on after the API's answer that an object does not exist."""
    try:
        yield
    except ApiRefused as refusal:
        if refusal.reason != NOT_FOUND:
            raise
