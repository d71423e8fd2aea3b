"""Clusters and servers that tests of this folder share."""

import pytest

from conformance.conftest import gcloud, gcloud_at, gcloud_env, own_folder, real_gcloud, warm
from k8s.emulator.pods.runtime import explain_absence
from k8s.live_cluster import running_cluster
from k8s.serving import SERVER_CLAIM, add_test_images

__all__ = ["gcloud", "gcloud_at", "gcloud_env", "own_folder", "real_gcloud", "warm"]


@pytest.fixture(scope="module")
def live_cluster(tmp_path_factory):
    """A cluster whose pods are processes, with four nodes and the server's claim."""
    if reason := explain_absence():
        pytest.skip(reason)
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        for number in range(2, 5):
            cluster.add_node(f"node-{number}")
        cluster.add_claim(SERVER_CLAIM)
        add_test_images(cluster)
        yield cluster
