"""What clients see of jobs in the queue of an engine: queued, and why, in all dialects."""

import pytest

from controller.world import nodes
from e2e.failpoints import FailingServer
from e2e.remote_engine import EngineHost
from e2e.support import PROJECT, custom_job, end_all, good, ml_job, native, submit, wait_until
from trainshed.engines.base import PlacedBy
from trainshed.model.explanation import Explanation, Reason
from trainshed.testing.fake_engine import FakeEngine, Script

#: Its jobs run nowhere.
JOBS_TELL_BY_FILES = True

pytestmark = pytest.mark.slow

WHY = Explanation(
    reason=Reason.ENGINE_QUEUE, message="Jobs with a higher priority are before it.", position=7
)
PARENT = f"projects/{PROJECT}/locations/us-central1"


@pytest.fixture
def engine():
    engine = FakeEngine(
        nodes(2),
        script=lambda _key, _plan: Script(runs_s=None, waits=WHY),
        places=PlacedBy.ENGINE,
        launches_at_once=4,
    )
    engine.is_busy = True
    yield engine
    assert engine.violations == []


@pytest.fixture
def server(tmp_path, engine):
    with EngineHost(tmp_path / "engine", engine):
        server = FailingServer(tmp_path / "data", engine=tmp_path / "engine", places="ENGINE")
        try:
            server.arm(None)
            assert server.begin()
            yield server
        finally:
            end_all(server)


def test_it_is_queued_to_all_until_its_engine_places_it(server, engine):
    custom, ml = submit(server, custom_job("one")), submit(server, ml_job("two"))
    for name in (custom, ml):
        wait_until(lambda name=name: is_explained(native(server, name)))
        explained = native(server, name, "/explain")
        assert (explained["state"], explained["message"]) == ("ENQUEUED", WHY.message)
        assert explained["waiting"]["since"]
        assert "change" not in explained["waiting"]
    job = good(server.call("GET", f"/v1/{custom}"))
    assert job["state"] == "JOB_STATE_QUEUED"
    assert job["labels"]["trainshed-waiting"] == "engine_queue"
    assert job["labels"]["trainshed-queue-position"] == "7"
    job = good(server.call("GET", f"/v1/{ml}"))
    assert (job["state"], job["errorMessage"]) == ("QUEUED", WHY.message)
    assert job["jobPosition"] == "7"
    for state, count in (("QUEUED", 1), ("PENDING", 0)):
        path = f"/v1/{PARENT}/customJobs?filter=state%3DJOB_STATE_{state}"
        assert len(good(server.call("GET", path)).get("customJobs", [])) == count
    status, refusal = server.call("POST", "/trainshed/v1/nodes/node-0:drain", {})
    assert (status, "fakectl drain node-0" in refusal["error"]["message"]) == (400, True)
    engine.is_busy = False
    for name in (custom, ml):
        wait_until(lambda name=name: native(server, name)["state"] == "RUNNING")
        assert "waiting" not in native(server, name)
        (replica,) = native(server, name)["replicas"]
        assert replica["node"] == "node-0"
        kinds = [event["kind"] for event in native(server, name, "/events")["events"]]
        assert kinds == ["ACCEPTED", "HANDED_OVER", "PLACED", "PREPARING", "RUNNING"]


def is_explained(explanation):
    return explanation.get("waiting", {}).get("queuePosition") == WHY.position
