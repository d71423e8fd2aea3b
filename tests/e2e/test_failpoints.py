"""The server is killed at every place where it commits or acts, and keeps all of its promises."""

import contextlib
import itertools
import sys

import psutil
import pytest

from controller.world import nodes
from e2e.chaos import FULL, check_count, counting, replica_texts
from e2e.failpoints import FailingServer, Jobs, uid_of
from e2e.remote_engine import EngineHost
from e2e.support import FINAL, custom_job, end_all, native, processes_of, wait_until
from trainshed.testing.fake_engine import FakeEngine, Script

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JOBS = 1000
#: Commits are not told apart by name: of the many, early and late ones are taken in turn.
COMMITS = itertools.cycle((1, 3, 8, 2))


TRIES = 4
#: A request that was cut waits for the next server: it may submit a job of which no caller knows
#: the name, and which runs until the end of the test.
ROOM = "[fleet]\nslots = 1000\n"
#: Almost no place is free: some jobs wait, and are told why.
NODES, SLOTS = 126, 8


@pytest.fixture
def engine():
    engine = FakeEngine(nodes(NODES, slots=SLOTS), script=lambda _key, _plan: Script(runs_s=None))
    yield engine
    assert engine.violations == []


def a_job(number, timeout=None, workers=0):
    document = custom_job(f"job-{number}", workers=workers)
    if timeout:
        document["jobSpec"]["scheduling"] = {"timeout": timeout}
    return document


class Drive:
    """A little of everything, so that the server comes to every place."""

    def __init__(self, server, jobs, engine):
        self._server = server
        self._jobs = jobs
        self._engine = engine
        self._rounds = 0

    def __call__(self):
        self._rounds += 1
        for _ in range(3):
            self._jobs.submit()
        self._jobs.submit("timed out", timeout="1s")
        for name in self._jobs.those("waits"):
            self._jobs.cancel(name)
        self._jobs.submit("waits", workers=100)  # there are no such many places
        self._end_some()
        if newest := self._jobs.submit():
            self._jobs.cancel(newest)
        self._maintain(f"node-{self._rounds // 2}", "maintain" if self._rounds % 2 else "resume")

    def _end_some(self):
        running = {key.uid: key for key in self._engine.running}
        names = [name for name in self._jobs.those("lives") if uid_of(name) in running]
        for name, fate in zip(names, ("ended", "lost", "failed", "cancelled"), strict=False):
            key = running[uid_of(name)]
            if fate == "cancelled":
                self._jobs.cancel(name)
                continue
            with self._engine._lock:  # the server stops some for maintenance meanwhile
                if key not in self._engine.running:
                    continue
                self._jobs.fates[name] = fate
                if fate == "lost":
                    self._engine.lose(key)
                else:
                    self._engine.end(key, 3 if fate == "failed" else 0)

    def _maintain(self, node, verb):
        self._server.try_call("POST", f"/trainshed/v1/nodes/{node}:{verb}", {"notice": "0s"})


def kill_everywhere(server, drive_it, *, at=lambda _place: True):
    """Kill at every place; the places, and those that could not be come to."""
    places, missed = [], []
    server.arm(None)
    assert server.begin()
    drive_it()
    server.kill()
    while todo := [place for place in server.reached_places() if place not in places and at(place)]:
        places += todo
        missed += [place for place in todo if not kill_at(server, place, drive_it)]
    return places, missed


@pytest.mark.full
def test_a_thousand_simulated_jobs(tmp_path, engine):
    with EngineHost(tmp_path / "engine", engine):
        server = FailingServer(tmp_path, engine=tmp_path / "engine")
        jobs = Jobs(server, a_job)
        try:
            server.arm(None)
            assert server.begin()
            while len(jobs.fates) < JOBS:
                jobs.submit()
            wait_until(lambda: len(engine.running) == JOBS, lambda: len(engine.running))
            server.kill()
            drive = Drive(server, jobs, engine)
            places, missed = kill_everywhere(server, drive, at=lambda p: FULL or "after" in p)
            server.arm(None)
            assert server.begin()
            check_all(server, jobs, engine)
        finally:
            end_all(server)
    tell(places, server)
    assert len(places) > (30 if FULL else 15)
    assert not missed, missed


def kill_at(server, place, drive_it, nth=1):
    """Whether it was killed there; what it comes to by chance only is tried more than once."""
    for _ in range(TRIES):
        server.arm(place, next(COMMITS) if "store-writer: commit" in place else nth)
        if server.begin():
            drive_it()
        if server.await_death():
            return True
    return False


def tell(places, server):
    """What was done, for those who run it by hand (``pytest -rP``)."""
    slowest = max(server.ready_s)
    sys.stdout.write(f"killed {len(places)} times; ready again in {slowest:.1f} s at most\n")


REAL = 20 if FULL else 8


def test_real_jobs(tmp_path):
    go = tmp_path / "may-end"
    server = FailingServer(tmp_path / "data", "--fleet-policy", "emulate", config=ROOM)
    jobs = Jobs(server, lambda number, code="print('done')": custom_job(f"job-{number}", code))
    try:
        server.arm(None)
        assert server.begin()
        for _ in range(REAL):
            jobs.submit(code=counting(go, pause_s=0.05))
        living = {first_attempt(name) for name in jobs.those("lives")}
        wait_until(lambda: living <= marks_of(server))
        server.kill()

        def drive():
            jobs.submit("ended")
            for may_begin in (False, True):
                if name := jobs.submit(code="import time; time.sleep(7200)"):
                    if may_begin:
                        wait_until(lambda name=name: server.has_ended or begun(server, name))
                    jobs.cancel(name)

        places, missed = kill_everywhere(
            server, drive, at=lambda p: FULL or ("local" in p and "after" in p)
        )
        assert living <= marks_of(server), "no job died with its server"
        server.arm(None)
        assert server.begin()
        go.touch()
        check_ends(server, jobs, len(living))
    finally:
        end_all(server)
    tell(places, server)
    assert any("spawn" in place for place in places)
    assert not missed, missed


def first_attempt(name):
    return f"{uid_of(name)}/1"


def begun(server, name):
    return first_attempt(name) in marks_of(server)


def marks_of(server):
    """UID/ATTEMPT of all attempts of which a process lives."""
    marks = set()
    for pid, _ in processes_of(server):
        with contextlib.suppress(psutil.Error):  # it has ended by now
            marks.add(psutil.Process(pid).environ().get("TRAINSHED_JOB", ""))
    return marks


def check_ends(server, jobs, count):
    """All come to their end, those that ran all the time at their first attempt, line by line."""
    wait_until(lambda: _all_have_ended(server, jobs), jobs.states)
    states = jobs.states()
    assert {states[name] for name in jobs.those("ended")} == {"JOB_STATE_SUCCEEDED"}
    assert {states[name] for name in jobs.those("cancelled")} == {"JOB_STATE_CANCELLED"}
    assert len(jobs.those("lives")) == count
    for name in jobs.those("lives"):
        assert states[name] == "JOB_STATE_SUCCEEDED"
        assert native(server, name)["attempt"] == 1
        check_count(replica_texts(server, name))
    wait_until(
        lambda: _all_have_ended(server, jobs) and not marks_of(server) - {""},
        lambda: (jobs.states(), marks_of(server)),
    )


def _all_have_ended(server, jobs):
    """Cancel the jobs of requests that a killed server did not answer, and read all states.

    The sockets outlive a killed server: the next server reads such a request at any moment after
    its start, so the caller looks for these jobs in every poll.
    """
    states = jobs.states()
    acknowledged = {name for fate in ("lives", "ended", "cancelled") for name in jobs.those(fate)}
    for name in states.keys() - acknowledged:
        if states[name] not in FINAL:
            server.call("POST", f"/v1/{name}:cancel", {})
    return set(states.values()) <= FINAL


#: What becomes of jobs to which nothing else was done afterwards.
ENDS = {"ended": "SUCCEEDED", "failed": "FAILED", "cancelled": "CANCELLED"}


def check_all(server, jobs, engine):
    """Every acknowledged job is there once, and came to what was done to it."""
    for number in range(NODES):
        server.call("POST", f"/trainshed/v1/nodes/node-{number}:resume", {})
    for name in jobs.those("waits"):
        jobs.cancel(name)
    for fate, state in ENDS.items():
        wait_until(
            lambda fate=fate, state=state: _all_have_state(jobs, fate, {f"JOB_STATE_{state}"})
        )
    wait_until(
        lambda: _all_have_state(jobs, "timed out", {"JOB_STATE_CANCELLED", "JOB_STATE_PENDING"})
    )
    for name in jobs.those("lost"):
        wait_until(lambda name=name: any(native(server, name).get("restarts", {}).values()))
    states = jobs.states()
    for name in (*jobs.those("lives"), *jobs.those("lost")):
        check_alive(native(server, name), states[name], lost=name in jobs.those("lost"))
    wait_until(lambda: running_in(jobs.states()) == {key.uid for key in engine.running})


def check_alive(job, state, *, lost):
    """No healthy job was started again; a lost one was, once, and not more often.

    What is lost while maintenance already moves it is not started a second time for that.
    """
    restarts = job.get("restarts", {})
    assert state in {"JOB_STATE_RUNNING", "JOB_STATE_QUEUED", "JOB_STATE_PENDING"}
    moved = restarts.get("maintenance", 0) > 0
    assert restarts.get("infra", 0) in ({0, 1} if lost and moved else {int(lost)}), job
    assert restarts.get("user", 0) == 0
    assert job["attempt"] <= 1 + sum(restarts.values()), job


def running_in(states):
    return {uid_of(name) for name, state in states.items() if state == "JOB_STATE_RUNNING"}


def _all_have_state(jobs, fate, states):
    current = jobs.states()
    return {current[name] for name in jobs.those(fate)} <= states
