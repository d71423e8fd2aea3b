"""Random steps against a store that is twenty lines of Python."""

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.builders import CLAIM, SEATS, SERVER, add, read
from trainshed.lifecycle.events import Command
from trainshed.model.status import FINAL, JobState
from trainshed.store.records.steps import NewEvent, Step

JOBS = 3
TICK_S = 7
WAITING_S_MAX = 20
RUNNING_S_MAX = 15
HOLDING = set(JobState) - FINAL - {JobState.QUEUED}
LAUNCHED = {JobState.ENQUEUED, JobState.PREPARING, JobState.RUNNING}


@dataclass
class ModelJob:
    """What the store should know of a job."""

    state: JobState = JobState.QUEUED
    version: int = 1
    attempt: int = 0
    holds: bool = False
    rows: bool = False
    started: bool = False
    events: int = 1
    commands: tuple = ()
    ran_s: int = 0
    since_s: int | None = None
    deadline_s: int | None = WAITING_S_MAX

    def take(self, step, now_s):
        opens = step.claim if step.state is JobState.ENQUEUED else step.seats
        opens = opens and step.state in (JobState.ENQUEUED, JobState.PREPARING)
        if step.version != self.version or (opens and self.state is not JobState.QUEUED):
            return False
        if self.state in FINAL and step.state is not self.state:
            return False
        self.keep_time(step.state, now_s)
        self.attempt += bool(opens)
        self.rows = bool(step.seats) if opens else self.rows
        self.holds = bool(opens) or (self.holds and step.state in HOLDING)
        self.state, self.version = step.state, self.version + 1
        self.started |= step.state is JobState.RUNNING
        self.events += len(step.events)
        if step.state not in LAUNCHED:
            self.commands = tuple(c for c in self.commands if c[1] is not Command.LAUNCH)
        if self.attempt:
            self.commands += tuple((self.attempt, kind) for kind in step.commands)
        return True

    def keep_time(self, state, now_s):
        if self.since_s is not None and state is not JobState.RUNNING:
            self.ran_s += now_s - self.since_s
            self.since_s = self.deadline_s = None
        elif self.since_s is None and state is JobState.RUNNING:
            self.since_s = now_s
            self.deadline_s = now_s + RUNNING_S_MAX - self.ran_s
        if state in FINAL or state is JobState.CANCELLING:
            self.deadline_s = None


STEPS = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, JOBS - 1),
            st.sampled_from([0, 0, 0, 1, -1]),  # how far the version is off
            st.sampled_from(JobState),
            st.booleans(),
            st.integers(0, 2),
            st.lists(st.sampled_from(Command), max_size=1),
        ),
        min_size=1,
        max_size=4,
    ),
    max_size=8,
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(calls=STEPS)
def test_the_store_and_the_model_agree(store, clock, calls):
    limits = {"waiting_s_max": WAITING_S_MAX, "running_s_max": RUNNING_S_MAX}
    uids = [add(store, **limits).uid for _ in range(JOBS)]
    now_s = 0
    model = {uid: ModelJob() for uid in uids}
    for call in calls:
        clock.forward(TICK_S)
        now_s += TICK_S
        ahead = {uid: job.version for uid, job in model.items()}
        steps, expected = [], []
        for number, off, state, seated, events, commands in call:
            uid = uids[number]
            step = Step(
                uid=uid,
                version=ahead[uid] + off,
                state=state,
                seats=SEATS if seated and state is not JobState.ENQUEUED else (),
                claim=CLAIM if seated and state is JobState.ENQUEUED else None,
                events=tuple(NewEvent(kind="E", message="") for _ in range(events)),
                commands=tuple(commands),
                owner=SERVER,
            )
            steps.append(step)
            expected.append(model[uid].take(step, now_s))
            ahead[uid] = model[uid].version
        assert list(store.apply(steps)) == expected
    for uid, job in model.items():
        check(store, uid, job, now_s)
    held = {h.uid for h in store.holding()} & set(uids)
    assert held == {uid for uid, job in model.items() if job.holds}
    due = {due.uid for due in store.due(limit=10**6)} & set(uids)
    assert due == {u for u, job in model.items() if job.deadline_s and job.deadline_s <= now_s}


def check(store, uid, job, now_s):
    record = read(store, uid)
    status = record.job.status
    assert (status.state, record.version, record.attempt) == (job.state, job.version, job.attempt)
    assert (status.end_time is not None) == (job.state in FINAL)
    assert (status.start_time is not None) == job.started
    assert record.ran_s == job.ran_s + (0 if job.since_s is None else now_s - job.since_s)
    assert len(store.events(uid)) == job.events
    stamps = [event.stamp_ns for event in store.events(uid)]
    assert stamps == sorted(set(stamps))
    commands = [(c.attempt, c.kind) for c in store.commands(SERVER, limit=10**6) if c.uid == uid]
    assert tuple(commands) == job.commands
    assert bool(store.replicas(uid)) == job.rows
    waits = uid in {w.uid for w in store.waiting(limit=10**6)}
    assert waits == (job.state is JobState.QUEUED)
