"""Two servers on one PostgreSQL share the work; one that is killed is taken over."""

import time
from dataclasses import replace

import pytest

from controller import test_threads
from controller.test_threads import wait_for
from controller.world import World, compose, nodes
from postgres_server import bin_folder, running_postgres
from trainshed.controller import Controller
from trainshed.engines.several import Engines
from trainshed.model.status import JobState
from trainshed.store.opening import open_store
from trainshed.testing.fake_engine import FakeEngine, Script

PACE = replace(test_threads.PACE, lease_ttl_s=5.0)


@pytest.fixture(scope="module")
def postgres():
    if bin_folder() is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    with running_postgres() as server:
        yield server


class Cluster(World):
    """One database and one outside world; every server has a connection of its own."""

    def __init__(self, url):
        self.engine = FakeEngine(nodes(8), script=lambda _key, _plan: Script(runs_s=None))
        self.stores = [open_store(url) for _ in range(3)]
        self.store = self.stores[-1]
        self.submitted = 0
        self.servers = [
            Controller(
                store,
                Engines.from_engine(self.engine),
                server=f"server-{n}",
                compose=compose,
                pace=PACE,
            )
            for n, store in enumerate(self.stores[:2])
        ]

    def close(self):
        for server in self.servers:
            server.stop()
        for store in self.stores:
            store.close()

    def kill(self, server):
        """End its threads and nothing else: its leases stay behind."""
        server._leases.leave = lambda: None
        server.stop()


@pytest.fixture
def cluster(postgres):
    servers = Cluster(postgres.emptied_database())
    yield servers
    servers.close()


def test_work_is_shared_and_what_a_dead_server_had_is_taken_over(cluster):
    for server in cluster.servers:
        server.start()
    assert len(cluster.store.servers()) == 2
    uids = [cluster.submit() for _ in range(40)]
    wait_for(lambda: cluster.states(uids) == {JobState.RUNNING})
    assert {cluster.job(uid).owner for uid in uids} == {"server-0", "server-1"}

    leader = next(server for server in cluster.servers if server.leading)
    cluster.kill(leader)
    for key in cluster.engine.running:
        cluster.engine.end(key)
    uids += [cluster.submit() for _ in range(10)]
    wait_for(lambda: cluster.states(uids) == {JobState.SUCCEEDED, JobState.RUNNING})
    wait_for(lambda: sum(cluster.state(uid) is JobState.SUCCEEDED for uid in uids) == 40)
    wait_for(lambda: sum(cluster.state(uid) is JobState.RUNNING for uid in uids) == 10)
    assert set(cluster.engine.launches.values()) == {1}
    assert cluster.engine.violations == []


def test_two_schedulers_never_give_one_place_twice(cluster):
    """Both are started at once, over a full queue, and the leader changes again and again."""
    uids = [cluster.submit() for _ in range(120)]
    for server in cluster.servers:
        server.start()
    until = time.monotonic() + test_threads.DEADLINE_S
    while cluster.states(uids) != {JobState.SUCCEEDED}:
        assert time.monotonic() < until
        for key in cluster.engine.running:
            cluster.engine.end(key)
        time.sleep(0.5)  # whoever leads gets something done, however fast the reads above are
        for server in cluster.servers:
            cluster.store.leave(server._leases.name)
    assert cluster.engine.violations == []
    assert {cluster.job(uid).attempt for uid in uids} == {1}
