"""The threads that watch a cluster end with it, whatever they are doing."""

import threading

import pytest

from engines.support import DEADLINE_S
from trainshed.engines.kubernetes import options, paths
from trainshed.engines.kubernetes.api.errors import ApiAway
from trainshed.engines.kubernetes.watched_cluster import WatchedCluster


class HeldClient:
    """The API is away, and answers the question for Kueue when a test lets it."""

    def __init__(self):
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def get(self, path, _query=None):
        if path != paths.KUEUE_GROUP:
            raise ApiAway("no API")
        self.is_asked.set()
        assert self.may_answer.wait(DEADLINE_S)
        return {"versions": [{"version": "v1beta1"}]}

    def close(self):
        self.may_answer.set()


def list_threads(name="kubernetes"):
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


@pytest.mark.parametrize("is_started", [True, False])
def test_no_thread_is_left_of_a_cluster_that_is_closed_while_it_is_checked(is_started):
    client = HeldClient()
    settings = options.read({"spool": "/spool", "claim": "spool"})
    cluster = WatchedCluster(client, settings, "default", "here")
    if is_started:
        cluster.start()
        assert client.is_asked.wait(DEADLINE_S)
    looking = list_threads("kubernetes-check")
    cluster.close()
    for thread in looking:
        thread.join()
    assert list_threads() == []
    cluster.start()
    cluster.close()
    assert list_threads() == []
