"""A restart of the server, and a database that is away, end no job's gs://."""

from types import SimpleNamespace

import pytest

from gateway.replica import ONE, TWO
from trainshed.engines.base import Endpoint
from trainshed.model.attempt import AttemptKey
from trainshed.model.status import Job, JobState, JobStatus
from trainshed.service.gateway.stored_attempts import AttemptOfPeer, AttemptsOfStore
from trainshed.store.base import StoreFault

ENDS = (Endpoint("127.0.0.1", 1), Endpoint("127.0.0.1", 2))


class Store:
    def __init__(self):
        self.state = JobState.RUNNING
        self.is_away = False
        self.query_count = 0

    def job_by_uid(self, uid):
        self.query_count += 1
        if self.is_away:
            raise StoreFault("gone")
        status = JobStatus(state=self.state)
        job = Job(project="one", location="us-east1", job_id="j", spec=None, status=status)
        return SimpleNamespace(uid=uid, attempt=1, job=job)

    def project(self, name):
        return name, "1001"

    def holding(self):
        self.query_count += 1
        return [SimpleNamespace(uid=ONE.uid, attempt=ONE.attempt)]


class Engine:
    """One that has just been started: it knows whom it was asked for."""

    def __init__(self):
        self.keys = set()

    def observe(self, keys):
        self.keys.update(keys)
        return ()

    def attempt_at(self, _theirs, _ours):
        return ONE if ONE in self.keys else None


@pytest.fixture
def store():
    return Store()


def test_an_attempt_that_runs_on_is_known_before_its_lease_is_taken(store):
    engine = Engine()
    whose = AttemptOfPeer(store, engine, engine.attempt_at, clock=lambda: 0.0)
    assert whose(*ENDS) == ONE


def test_strangers_do_not_have_the_store_asked_as_often_as_they_like(store):
    now = [0.0]
    whose = AttemptOfPeer(store, Engine(), lambda *_: None, clock=lambda: now[0])
    assert [whose(*ENDS) for _ in range(9)] == [None] * 9
    now[0] = 1.0
    assert (whose(*ENDS), store.query_count) == (None, 2)


@pytest.mark.parametrize("state", JobState)
def test_an_attempt_lives_from_its_launch_to_its_end(store, state):
    store.state = state
    find = AttemptsOfStore(store, clock=lambda: 0.0)
    lives = state not in {JobState.QUEUED, JobState.ENQUEUED} and not state.is_final
    assert (find(ONE) is not None) == lives
    assert find(AttemptKey(ONE.uid, 2)) is None  # a later or an earlier one
    assert find.is_remembered(ONE)


def test_what_has_ended_is_over_a_moment_later(store):
    now = [0.0]
    find = AttemptsOfStore(store, clock=lambda: now[0])
    assert find(ONE).location == "us-east1"
    store.state = JobState.SUCCEEDED
    now[0] = 1.0
    assert find(ONE) is None


def test_a_job_that_was_known_goes_on_while_the_database_is_away(store):
    now = [0.0]
    find = AttemptsOfStore(store, clock=lambda: now[0])
    assert find(ONE)
    store.is_away, now[0] = True, 1.0
    assert find(ONE)
    with pytest.raises(StoreFault):
        find(TWO)


def test_who_cannot_be_looked_up_is_asked_to_come_again(replica, world):
    held = replica.tls()
    world.is_away = True
    token = "/computeMetadata/v1/instance/service-accounts/default/token"
    assert held.ask("GET", "/mine").status == 503
    assert replica.plain().ask("GET", token, Metadata_Flavor="Google").status == 503
    wire = replica.plain()
    wire.send("CONNECT storage.googleapis.com:443 HTTP/1.1\r\n\r\n")
    assert wire.answer().status == 503
