"""Clusters and servers that tests of this folder share."""

import os

import pytest

from conformance.conftest import gcloud, gcloud_at, gcloud_env, own_folder, real_gcloud, warm
from k8s import given_cluster
from k8s.emulator.pods.runtime import explain_absence
from k8s.given_cluster import NEEDS_CONTROL, GivenCluster
from k8s.live_cluster import running_cluster
from k8s.serving import SERVER_CLAIM, add_test_images

__all__ = ["gcloud", "gcloud_at", "gcloud_env", "own_folder", "real_gcloud", "warm"]


@pytest.fixture(scope="module")
def any_cluster(request, tmp_path_factory):
    """The cluster that the environment names, or else one whose pods are processes."""
    if given_cluster.is_given():
        return GivenCluster(os.environ, tmp_path_factory.mktemp("keys"))
    return request.getfixturevalue("live_cluster")


@pytest.fixture
def controlled_cluster(any_cluster):
    """A cluster whose nodes, images and objects a test sees and changes."""
    if any_cluster.control is None:
        pytest.skip(f"{NEEDS_CONTROL}: nodes, images and objects of the tests")
    return any_cluster


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


def pytest_terminal_summary(terminalreporter):
    """Print which tests a cluster of the environment cannot run."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = [(str(report.longrepr[2]), report) for report in reports if report.longrepr]
    rows = [(reason, report.nodeid) for reason, report in reasons if NEEDS_CONTROL in reason]
    if rows:
        terminalreporter.section("not run on this cluster")
        for reason, name in rows:
            terminalreporter.write_line(f"{name}: {reason.removeprefix('Skipped: ')}")
