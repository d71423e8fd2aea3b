"""Studies on both databases: whatever was reported comes back, and servers never step twice."""

import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.builders import (
    LEASE_S,
    PROJECT,
    HandClock,
    add_study,
    advance,
    new_trials,
    read,
    reported,
    step_of,
    trial,
    trial_job,
)
from trainshed.model.attempt import Report
from trainshed.model.status import JobState
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.store.codec import to_time
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.studies import NewTrial, TrialReports
from trainshed.store.study_rows import STATE_OF_FORGOTTEN

STEPPER = Path(__file__).with_name("killed_stepper.py")
KILLED_AFTER = 30
AT_ONCE = 5

#: Any text at all, but for what no JSON can tell from one character: a pair of surrogates.
TEXT = st.text(st.characters(codec=None), max_size=5).filter(
    lambda text: text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
NUMBER = st.floats(allow_nan=False)
#: Whole seconds and their millionths, as clocks give them.
TIME = st.none() | st.integers(0, 9 * 10**15).map(lambda us: to_time(us * 1000))
MEASUREMENT = st.builds(
    Measurement,
    step=st.integers(),
    elapsed_s=NUMBER,
    metrics=st.lists(st.tuples(TEXT, NUMBER), max_size=2).map(tuple),
)
TRIAL = st.builds(
    TrialRecord,
    number=st.just(1),
    state=st.sampled_from(TrialState),
    values=st.lists(st.tuples(TEXT, NUMBER | st.integers() | TEXT), max_size=3).map(tuple),
    final=st.none() | MEASUREMENT,
    infeasible_reason=st.none() | TEXT,
    stopped_early=st.booleans(),
    paused_at=st.none() | st.integers(0, 2**62),
    start_time=TIME,
    end_time=TIME,
)
REPORTS = st.lists(
    st.builds(Report, tag=TEXT, value=st.floats(), step=st.integers(), elapsed_s=st.floats()),
    max_size=4,
).map(tuple)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(begun=TRIAL, updated=TRIAL, brought=st.lists(REPORTS, min_size=1, max_size=3))
def test_any_trial_and_any_reports_come_back(store, begun, updated, brought):
    study = add_study(store, kind=JobKind.TUNING_JOB, job_id="")
    job = trial_job(1, study_id=str(study.uid))
    [stored] = advance(store, study.uid, new_trials=(NewTrial(trial=begun, job=job),))
    assert as_seen(stored.trial) == as_seen(begun)
    for mark, reports in enumerate(brought, 1):
        news = TrialReports(number=1, mark=(1, mark), reports=reports)
        [stored] = advance(store, study.uid, trials=(updated,), reports=(news,))
    assert as_seen(stored.trial) == as_seen(updated)
    assert as_seen(stored.reports) == as_seen(tuple(r for batch in brought for r in batch))
    assert stored.mark == (1, len(brought))


def as_seen(value):
    """A value that equals itself: NaN is NaN, 1 is not 1.0, and -0.0 is not 0.0."""
    return repr(value)


def test_a_word_of_every_state_is_known_for_a_forgotten_job():
    assert STATE_OF_FORGOTTEN.keys() == set(TrialState)
    assert all(state.is_final for state in STATE_OF_FORGOTTEN.values())


@pytest.fixture
def servers(postgres_url):
    """Two stores on one database."""
    clock = HandClock()
    opened = [open_store(postgres_url, clock) for _ in range(2)]
    for number, store in enumerate(opened):
        store.join(f"server-{number}", LEASE_S)
    yield opened
    for store in opened:
        store.close()


def test_of_study_steps_from_one_version_one_applies(servers):
    uids = [add_study(servers[0], kind=JobKind.TUNING_JOB, job_id="").uid for _ in range(10)]
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(begin, servers[n % 2], uid) for uid in uids for n in range(8)]
        applied = Counter(future.result() for future in done)
    assert applied == {None: 7 * len(uids), **dict.fromkeys(uids, 1)}
    for uid in uids:
        assert [row.trial.number for row in servers[1].trials(uid)] == [1, 2]
        assert read(servers[1], uid).version == 2
    assert servers[0].waiting_count() == 2 * len(uids)


def begin(store, uid):
    """Make the first two trials, unless somebody has; the uid, or None."""
    jobs = [trial_job(number, study_id=str(uid)) for number in (1, 2)]
    new = tuple(NewTrial(trial=trial(n), job=job) for n, job in enumerate(jobs, 1))
    step = step_of(store, uid, version=1, state=JobState.RUNNING, new_trials=new)
    return uid if store.apply_study(step) else None


def test_uids_that_meet_are_made_again(servers, monkeypatch):
    uid = add_study(servers[0]).uid
    make = servers[1]._db.new_uid
    first_numbers = iter([uid])
    monkeypatch.setattr(servers[1]._db, "new_uid", lambda: next(first_numbers, None) or make())
    rows = advance(servers[1], uid, new_trials=new_trials(1, 2))
    assert [row.trial.number for row in rows] == [1, 2]
    assert uid not in {row.job_uid for row in rows}


def test_a_step_is_there_as_a_whole_or_not_at_all_after_a_kill(url):
    with subprocess.Popen(
        [sys.executable, STEPPER, url, str(AT_ONCE)], stdout=subprocess.PIPE
    ) as child:
        answered = [next(child.stdout).split() for _ in range(KILLED_AFTER)]
        child.kill()
        answered += [line.split() for line in child.stdout]
    assert child.returncode == -signal.SIGKILL, "it was killed in the middle"
    uid, last = map(int, answered[-1])
    store = open_store(url)
    try:
        rows = store.trials(uid)
        assert [row.trial.number for row in rows] == list(range(1, len(rows) + 1))
        assert len(rows) >= last
        assert len(rows) % AT_ONCE == 0
        assert read(store, uid).version == 1 + len(rows) // AT_ONCE
        assert {row.mark for row in rows} == {(1, 2)}
        assert {row.reports for row in rows} == {reported(1, 0.5, 0.75).reports}
        assert store.waiting_count() == len(rows), "no job without a trial"
        for row in rows:
            record = store.job(PROJECT, JobKind.TRIAL, row.job_name)
            assert record.uid == row.job_uid
            assert [event.kind for event in store.events(row.job_uid)] == ["ACCEPTED"]
    finally:
        store.close()
