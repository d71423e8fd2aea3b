"""The Kubernetes engine keeps the contract of engines, on a cluster whose pods are processes."""

import pytest

from k8s.emulator.pods.runtime import explain_absence
from k8s.live_cluster import running_cluster
from k8s.world import KubernetesWorld
from trainshed.testing.program_contract import ProgramContract

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if reason := explain_absence():
        pytest.skip(reason)
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        running.add_node("node-2")
        yield running


class TestKubernetesEngine(ProgramContract):
    @pytest.fixture
    def world(self, cluster, tmp_path):
        world = KubernetesWorld(cluster, tmp_path)
        yield world
        world.close()
