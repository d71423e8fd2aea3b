"""Which events of a namespace an engine keeps in memory."""

import pytest

from k8s.emulator.api import start_api
from k8s.world import connect_to
from server_process import Waiting
from trainshed.engines.kubernetes import names, options
from trainshed.engines.kubernetes.watched_cluster import WatchedCluster
from trainshed.model.attempt import AttemptKey

KEY = AttemptKey(7, 1)
INSTALLATION = "inst"


def make_event(number, target, reason):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"event-{number}", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": target},
        "reason": reason,
        "message": "m",
        "type": "Normal",
    }


@pytest.fixture
def api():
    with start_api() as api:
        yield api


@pytest.fixture
def cluster(api):
    settings = options.read({"spool": "/s", "claim": "c"})
    cluster = WatchedCluster(connect_to(api), settings, "default", INSTALLATION)
    yield cluster
    cluster.close()


def test_events_of_others_and_of_running_pods_are_left_out(api, cluster):
    own, other = names.name_of(INSTALLATION, KEY), names.name_of("other", KEY)
    rows = [
        (f"{own}-worker-0-0-abcde", "FailedMount"),
        (f"{own}-worker-0-0-abcde", "Started"),
        (f"{other}-worker-0-0-abcde", "FailedMount"),
        ("web-7d5", "BackOff"),
    ]
    for number, (target, reason) in enumerate(rows):
        api.store.create(make_event(number, target, reason))
    cluster.sync()
    api.store.create(make_event(10, "web-7d5", "FailedMount"))
    api.store.create(make_event(11, own, "FailedCreate"))
    waiting, watcher = Waiting(60), cluster._watchers["Event"]
    while len(watcher.objects) < 2:
        assert not waiting.is_over
        waiting.pause()
    assert {row["reason"] for row in watcher.objects.values()} == {"FailedMount", "FailedCreate"}
