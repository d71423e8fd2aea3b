"""The emulator's controllers against what a real cluster was recorded to do."""

import pytest

from k8s.kueue_objects import POOL, one_node, queues
from k8s.playing import play
from k8s.recorded import differing_events, differing_paths, swapped_moments

SECOND_TAINT = {"key": "example.com/b", "effect": "NoSchedule"}
#: Moments that a recording has closer than this may come in another order.
APART_S = 2.0


def two_nodes(cluster):
    """The second node is for pods that ask for it."""
    one_node(cluster)
    cluster.add_node("gpu-node-b", labels={POOL: "b"}, taints=[SECOND_TAINT])


def unreachable_registry(cluster):
    one_node(cluster)
    image = "registry.invalid/team/trainer:9"
    host = "192.0.2.53:53"
    cluster.images.refuse(
        image,
        f'failed to resolve reference "{image}": failed to do request: Head "https://registry.'
        f'invalid/v2/team/trainer/manifests/9": dial tcp: lookup registry.invalid on {host}: read '
        f"udp 10.88.0.1:39304->{host}: i/o timeout",
    )


PREPARATIONS = {
    "i": two_nodes,
    "f3": two_nodes,
    "j": queues,
    "j2": queues,
    "m": unreachable_registry,
}
#: A JobSet that somebody resumes past Kueue starts in no certain order: a test of its own.
SKIPPED = {"j2": "j-big-a0"}
TRACES = ("a", "b", "e", "f", "f1", "f3", "i", "j", "j2", "m", "m2", "o", "r", "t")


@pytest.fixture(scope="module")
def stories():
    """Recorded and emulated stories by the trace's name; a trace is played once."""
    cache = {}

    def find(name):
        if name not in cache:
            cache[name] = play(name, PREPARATIONS.get(name, one_node))
        return cache[name]

    return find


@pytest.mark.parametrize("name", TRACES)
def test_objects_go_through_the_recorded_states(stories, name):
    assert differing_paths(*stories(name), SKIPPED.get(name, "")) == ""


@pytest.mark.parametrize("name", TRACES)
def test_components_record_the_recorded_events(stories, name):
    assert differing_events(*stories(name), SKIPPED.get(name, "")) == ""


@pytest.mark.parametrize("name", TRACES)
def test_objects_change_in_the_recorded_order(stories, name):
    assert swapped_moments(*stories(name), APART_S) == ""
