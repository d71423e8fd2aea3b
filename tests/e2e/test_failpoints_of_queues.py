"""A server whose engine places by itself is killed at every place around the hand-over."""

import pytest

from controller.world import nodes
from e2e.chaos import FULL
from e2e.failpoints import FailingServer, Jobs, uid_of
from e2e.remote_engine import EngineHost
from e2e.support import custom_job, end_all, native, wait_until
from e2e.test_failpoints import kill_everywhere, tell
from trainshed.engines.base import PlacedBy
from trainshed.model.explanation import Explanation, Reason
from trainshed.testing.fake_engine import FakeEngine, Script

#: Its jobs run nowhere.
JOBS_TELL_BY_FILES = True

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

JOBS = 100 if FULL else 20
FULL_NOW = Explanation(reason=Reason.ENGINE_FULL, message="It takes no more for now.")
#: The places that only such an engine has, and those beside which one may be lost or doubled.
OURS = ("engine.", "launch", "controller-perform", "controller-schedule", "controller-observe")


class Cluster(FakeEngine):
    """Every seventh attempt is refused at its first try."""

    def __init__(self):
        super().__init__(
            nodes(40, slots=8), script=self._script_of, places=PlacedBy.ENGINE, launches_at_once=4
        )

    def _script_of(self, key, _plan):
        refused = FULL_NOW if key.uid % 7 == 0 and key.attempt == 1 else None
        return Script(runs_s=None, queue_s=0.2, refused=refused)


@pytest.fixture
def engine():
    engine = Cluster()
    yield engine
    assert engine.violations == []


def is_ours(place):
    return any(part in place for part in OURS) and (FULL or "after" in place)


def test_each_attempt_is_launched_once_and_none_is_lost(tmp_path, engine):
    with EngineHost(tmp_path / "engine", engine):
        server = FailingServer(tmp_path, engine=tmp_path / "engine", places="ENGINE")
        jobs = Jobs(server, lambda number: custom_job(f"job-{number}"))
        try:
            server.arm(None)
            assert server.begin()
            while len(jobs.fates) < JOBS:
                jobs.submit()
            wait_until(lambda: len(engine.running) > JOBS // 2, lambda: len(engine.running))
            server.kill()

            def drive():
                for _ in range(8):
                    jobs.submit()
                if name := jobs.submit():
                    jobs.cancel(name)
                end_one(jobs, engine)

            places, missed = kill_everywhere(server, drive, at=is_ours)
            server.arm(None)
            assert server.begin()
            check(server, jobs, engine)
        finally:
            end_all(server)
    tell(places, server)
    assert any(place.startswith("launch: engine.launch") for place in places), places
    assert not missed, missed


def end_one(jobs, engine):
    """So that the observer comes to its places, too."""
    running = {key.uid: key for key in engine.running}
    for name in jobs.those("lives"):
        if uid_of(name) in running:
            jobs.fates[name] = "ended"
            engine.end(running[uid_of(name)])
            return


def check(server, jobs, engine):
    lives = {uid_of(name): name for name in jobs.those("lives")}
    wait_until(
        lambda: lives.keys() <= {key.uid for key in engine.running},
        lambda: len(lives.keys() - {key.uid for key in engine.running}),
    )
    for uid, name in lives.items():
        job = native(server, name)
        tries = 2 if uid % 7 == 0 else 1
        assert "restarts" not in job, job
        assert job["attempt"] == tries, job
    wait_until(lambda: {native(server, name)["state"] for name in lives.values()} == {"RUNNING"})
    for name in jobs.those("ended"):
        wait_until(lambda name=name: native(server, name)["state"] == "SUCCEEDED")
    for name in jobs.those("cancelled"):
        wait_until(lambda name=name: native(server, name)["state"] == "CANCELLED")
    started = {}
    for key, count in engine.started.items():
        started.setdefault(key.uid, []).append(count)
    assert all(counts == [1] for counts in started.values()), "one start a job"
