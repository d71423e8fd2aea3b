import pytest

from slurm.cluster import LARGE, running_cluster, why_not


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
    """Six nodes with four GPUs each; what a test leaves there is ended after it."""
    yield session_cluster
    session_cluster.empty()


@pytest.fixture(scope="session")
def large_cluster():
    """A hundred nodes."""
    yield from _cluster(LARGE)
