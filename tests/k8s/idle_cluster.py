"""A cluster on the machine's clock whose containers start and wait, without any process.

The launcher never begins an attempt there, which is enough for whatever keeps replicas from
starting; it needs no root.
"""

from contextlib import contextmanager

from k8s.live_cluster import running_cluster
from k8s.scripted_cluster import ContainerScript, ScriptedRuntime


class IdleRuntime(ScriptedRuntime):
    """Containers that run until they get a signal."""

    def __init__(self, _folder, claims, _read):
        super().__init__()
        self._claims = claims

    def start(self, pod, order):
        self._scripts[pod["metadata"]["uid"], order.name] = ContainerScript(None, obeys=True)

    def open_network(self):
        """Do nothing: there are no processes to connect."""

    def close(self):
        """Do nothing: there are no processes to end."""


@contextmanager
def running_idle_cluster(folder):
    with running_cluster(folder, make_runtime=IdleRuntime) as cluster:
        cluster.runtime.loop = cluster.plane.parts.loop
        cluster.runtime.loop.add(cluster.runtime)
        yield cluster
