import pytest

from conformance.conftest import gcloud, gcloud_at, gcloud_env, own_folder, real_gcloud, warm
from slurm.cluster import LARGE, running_cluster, why_not

__all__ = ["gcloud", "gcloud_at", "gcloud_env", "own_folder", "real_gcloud", "warm"]


def _cluster(*settings):
    if reason := why_not():
        pytest.skip(reason)
    with running_cluster(*settings) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def session_cluster():
    yield from _cluster()


@pytest.fixture
def cluster(session_cluster):
    """Six nodes with four GPUs each; jobs that a test leaves there end after it."""
    yield session_cluster
    session_cluster.empty()


@pytest.fixture(scope="session")
def large_cluster():
    """A hundred nodes."""
    yield from _cluster(LARGE)
