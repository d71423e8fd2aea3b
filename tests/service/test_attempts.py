"""An administrator's word for an attempt: taken where the engine cannot know, and only there."""

import pytest

from service.submitting import PROJECT
from store.builders import add, go, place
from trainshed.engines.base import NodeLocation, PlacedBy, Traits
from trainshed.engines.several import Engines, ServedEngine
from trainshed.model.attempt import AttemptKey, Observation, Phase
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import EngineFault
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobState
from trainshed.service.nodes.fencing import AttemptService

WHO = "ada"


class Observing:
    """An engine that has no fence."""

    name = "cluster"

    def __init__(self):
        self.phase = Phase.UNKNOWN
        self.traits = Traits(reach=NodeLocation.ANY, python="python", places=PlacedBy.ENGINE)

    def observe(self, keys):
        return [Observation(key=key, phase=self.phase) for key in keys]


class Cluster(Observing):
    """An engine that cannot reach its nodes."""

    def __init__(self):
        super().__init__()
        self.fenced = []
        self.objection = None

    def fence(self, key):
        if self.objection:
            raise self.objection
        self.fenced.append(key)


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def attempts(store, cluster):
    return AttemptService(store, Engines.from_engine(cluster))


@pytest.fixture
def job(store):
    record = add(store, project=PROJECT)
    place(store, record.uid)
    return go(store, record.uid, JobState.RUNNING)


def refusal(attempts, uid, attempt):
    with pytest.raises(Refusal) as error:
        attempts.fence(uid, attempt, WHO)
    return error.value.code, error.value.message


def fence_events(store, job):
    return [event for event in store.events(job.uid) if "FENCED" in event.kind]


def test_the_engine_gets_the_word_and_the_story_who_said_it(store, cluster, attempts, job):
    answer = attempts.fence(job.uid, 1, WHO)
    assert answer.job == job.name
    assert (answer.attempt, answer.engine) == (1, "cluster")
    assert cluster.fenced == [AttemptKey(job.uid, 1)]
    (event,) = fence_events(store, job)
    assert (event.kind, event.attempt, event.data["by"]) == ("FENCED", 1, WHO)
    assert event.message == "ada says that no process of attempt 1 runs; it counts as lost."


def test_the_story_has_it_before_the_engine_acts(store, cluster, attempts, job):
    cluster.objection = OSError("no answer")
    code, message = refusal(attempts, job.uid, 1)
    assert (code, "no answer" in message) == (Code.UNAVAILABLE, True)
    assert [event.kind for event in fence_events(store, job)] == ["FENCED"]


def test_an_engine_that_knows_better_is_told_in_the_story(store, cluster, attempts, job):
    cluster.objection = EngineFault("its program writes lines")
    code, message = refusal(attempts, job.uid, 1)
    assert (code, "its program writes lines" in message) == (Code.FAILED_PRECONDITION, True)
    assert [event.kind for event in fence_events(store, job)] == ["FENCED", "NOT_FENCED"]


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.UNKNOWN])
def test_an_attempt_that_the_engine_sees_is_not_fenced(store, cluster, attempts, job, phase):
    cluster.phase = phase
    code, message = refusal(attempts, job.uid, 1)
    assert code is Code.FAILED_PRECONDITION
    assert "is not unknown: " in message
    assert "cluster" in message
    assert (cluster.fenced, fence_events(store, job)) == ([], [])


def test_an_engine_that_always_knows_takes_no_word(store, job):
    code, message = refusal(AttemptService(store, Engines.from_engine(Observing())), job.uid, 1)
    assert code is Code.FAILED_PRECONDITION
    assert "cluster always knows whether" in message
    assert fence_events(store, job) == []


def test_what_is_not_there_is_named(attempts, job):
    assert refusal(attempts, 7, 1) == (Code.NOT_FOUND, "there is no job with the number 7")
    newest = f"{job.name} has no attempt 2; its newest is 1"
    assert refusal(attempts, job.uid, 2) == (Code.NOT_FOUND, newest)


def test_what_is_over_stays_so(store, attempts, job):
    go(store, job.uid, JobState.RESTARTING)
    go(store, job.uid, JobState.QUEUED)
    over = f"attempt 1 of {job.name} is over; the job is QUEUED"
    assert refusal(attempts, job.uid, 1) == (Code.FAILED_PRECONDITION, over)
    place(store, job.uid)
    assert "the job is PREPARING" in refusal(attempts, job.uid, 1)[1]
    go(store, job.uid, JobState.SUCCEEDED)
    assert "the job is SUCCEEDED" in refusal(attempts, job.uid, 2)[1]


def test_a_job_that_waits_for_its_first_attempt_has_none(store, attempts):
    record = add(store, project=PROJECT)
    assert "it has had none yet" in refusal(attempts, record.uid, 1)[1]


def test_an_engine_that_this_server_has_not_is_named(store, cluster, job):
    away = Explanation(reason=Reason.ENGINE_AWAY, message="no such file")
    engines = Engines({"cluster": ServedEngine(engine=cluster)}, {"other": away})
    engines.set_lookup(lambda keys: dict.fromkeys(keys, "other"))
    code, message = refusal(AttemptService(store, engines), job.uid, 1)
    assert (code, message) == (Code.UNAVAILABLE, "this server runs without the engine other")
