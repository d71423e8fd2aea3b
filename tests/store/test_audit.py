"""Whoever audits a database reads all of it, at one moment, and changes nothing."""

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from store.builders import (
    LEASE_S,
    NS_PER_S,
    SEATS,
    SERVER,
    add,
    add_study,
    advance,
    go,
    place,
    trial,
    trial_job,
)
from trainshed.lifecycle.events import Command
from trainshed.model.resources import Node, NodeState
from trainshed.model.status import JobState
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.model.trials import TrialState
from trainshed.store import audit
from trainshed.store.base import StoreFault
from trainshed.store.opening import open_store
from trainshed.store.records.studies import NewTrial

#: Where the program below finds ``builders``.
HERE = Path(__file__).parent
KILLED = """
import os, signal, sys
from trainshed.store.opening import open_store
from builders import add
store = open_store(sys.argv[1])
for _ in range(3): add(store)
os.kill(os.getpid(), signal.SIGKILL)
"""


def filled(store, clock):
    """One waits, one runs, one is over and was deleted; the store is told why and how."""
    store.join(SERVER, LEASE_S)
    store.see_nodes("local", [Node(name="n1"), Node(name="n2")])
    store.set_node_state("local", "n2", NodeState.MAINTENANCE, notice_s=9.0)
    uids = [add(store).uid for _ in range(3)]
    for uid in uids[1:]:
        place(store, uid)
        go(store, uid, JobState.RUNNING)
    clock.forward(5)
    order = StopOrder(grace_s=1.0, reason=StopReason.END)
    go(store, uids[2], JobState.FAILED, commands=(Command.STOP,), stop=order)
    store.delete_job(uids[2])
    return uids


def test_an_audit_says_what_the_store_says(url, store, clock):
    uids = filled(store, clock)
    rows = audit.rows(url, clock)
    assert list(rows.jobs) == [store.job_by_uid(uid) for uid in uids]
    assert list(rows.held.values()) == list(store.holding())
    assert set(rows.held) == {uids[1]}
    assert list(rows.commands) == list(store.commands(SERVER))
    assert rows.commands[-1].stop == StopOrder(grace_s=1.0, reason=StopReason.END)
    assert rows.attempts == {(uid, 1): SEATS for uid in uids[1:]}
    assert rows.replicas == {(uid, 1): list(store.replicas(uid)) for uid in uids[1:]}
    assert list(rows.nodes) == list(store.nodes())
    assert rows.last_events == {uid: store.events(uid)[-1] for uid in uids}
    until_ns = clock.now_ns + int((LEASE_S - 5) * NS_PER_S)
    assert rows.leases == {f"server:{SERVER}": (SERVER, until_ns)}
    assert list(rows.damage) == []


def test_an_audit_knows_the_trials_and_who_is_a_study(url, store, clock):
    uids = [add_study(store, job_id=name).uid for name in ("a", "b")]
    jobs = [trial_job(1, "a"), trial_job(2, "a"), trial_job(1, "b")]
    new_trials = [NewTrial(trial=trial(int(job.spec.trial.trial_id)), job=job) for job in jobs]
    advance(store, uids[1], new_trials=new_trials[2:])
    advance(store, uids[0], new_trials=new_trials[:2])
    stopping = trial(2, state=TrialState.STOPPING)
    stored = [*advance(store, uids[0], trials=(stopping,)), *store.trials(uids[1])]
    rows = audit.rows(url, clock)
    assert [row.job_uid for row in rows.trials] == [row.job_uid for row in stored]
    assert [(row.study_uid, row.number, row.state) for row in rows.trials] == [
        (uids[0], 1, TrialState.ACTIVE),
        (uids[0], 2, TrialState.STOPPING),
        (uids[1], 1, TrialState.ACTIVE),
    ]
    assert [record.uid for record in rows.jobs if record.job.spec.is_study] == uids
    assert list(rows.damage) == []


def listing(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).digest() for path in sorted(folder.iterdir())
    }


def test_an_audit_of_a_file_at_rest_makes_and_changes_nothing(tmp_path, clock):
    folder = tmp_path / "odd name"
    url = f"sqlite:///{folder}/trainshed.db"
    store = open_store(url, clock)
    uids = filled(store, clock)
    store.close()
    before = listing(folder)
    assert [record.uid for record in audit.rows(url).jobs] == uids
    assert listing(folder) == before


def test_what_a_killed_server_has_committed_is_seen(tmp_path):
    url = f"sqlite:///{tmp_path}/trainshed.db"
    killed = subprocess.run([sys.executable, "-c", KILLED, url], cwd=HERE, check=False)
    assert killed.returncode == -signal.SIGKILL
    before = listing(tmp_path)
    assert before["trainshed.db-wal"] != hashlib.sha256(b"").digest()
    assert len(audit.rows(url).jobs) == 3
    after = listing(tmp_path)
    del before["trainshed.db-shm"], after["trainshed.db-shm"]  # readers meet there
    assert after == before


def test_what_is_not_there_is_named_and_not_made(tmp_path):
    with pytest.raises(StoreFault, match=rf"{tmp_path}/none\.db .*No such file"):
        audit.rows(f"sqlite:///{tmp_path}/none.db")
    assert not listing(tmp_path)


def test_an_empty_database_is_called_so(tmp_path, postgres):
    (tmp_path / "empty.db").touch()
    for url in (f"sqlite:///{tmp_path}/empty.db", postgres.new_database()):
        with pytest.raises(StoreFault, match="empty"):
            audit.rows(url)
    assert listing(tmp_path) == {"empty.db": hashlib.sha256(b"").digest()}


def test_a_newer_database_is_named(tmp_path, clock):
    url = f"sqlite:///{tmp_path}/trainshed.db"
    open_store(url, clock).close()
    change(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreFault, match="newer release"):
        audit.rows(url)


def test_rows_that_belong_to_nothing_are_told(tmp_path, clock):
    url = f"sqlite:///{tmp_path}/trainshed.db"
    open_store(url, clock).close()
    change(url, "INSERT INTO commands (uid, attempt, kind) VALUES (17, 1, 'STOP')")
    assert list(audit.rows(url).damage) == ["row 1 of commands belongs to no row of jobs"]


def change(url, statement):
    engine = create_engine(make_url(url))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
