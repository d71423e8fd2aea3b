"""The Kubernetes engine keeps the contract of engines, on a cluster whose pods are processes.

Or on the cluster that the environment names; see README.md in this folder.
"""

from functools import cache

import pytest

from k8s.world import KubernetesWorld
from trainshed.engines.kubernetes import runtime
from trainshed.testing.program_contract import ProgramContract

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True, scope="module")
def bundle_once():
    """Bundle the interpreter for pods once; a test opens several engines, each as a new server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "bundle", cache(runtime.bundle))
        yield


class TestKubernetesEngine(ProgramContract):
    @pytest.fixture
    def world(self, any_cluster, tmp_path):
        world = KubernetesWorld(any_cluster, tmp_path)
        yield world
        world.close()
