"""The Kubernetes engine keeps the contract of engines, on a cluster whose pods are processes."""

import pytest

from k8s.emulator.pods.runtime import explain_absence
from k8s.live_cluster import running_cluster
from k8s.world import KubernetesWorld
from trainshed.engines.kubernetes.runtime import architecture
from trainshed.testing.program_contract import ProgramContract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if reason := explain_absence():
        pytest.skip(reason)
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        running.add_node("node-2", labels={"kubernetes.io/arch": architecture()})
        yield running


class TestKubernetesEngine(ProgramContract):
    #: The few that show the engine whole; each takes seconds.
    QUICK = frozenset(
        {
            "test_it_is_ready_as_long_as_it_runs_then_ended_for_ever",
            "test_it_starts_once_from_wherever_it_is_launched",
            "test_what_was_stopped_before_never_starts",
            "test_what_cannot_be_seen_is_unknown_until_it_can",
            "test_what_lives_is_known_and_what_is_left_is_found",
        }
    )

    @pytest.fixture
    def world(self, cluster, tmp_path):
        world = KubernetesWorld(cluster, tmp_path)
        yield world
        world.close()
