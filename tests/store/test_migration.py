"""A database of the first release goes on with every job that is in it."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import MetaData, Table, create_engine, inspect, make_url, select

from databases import new_database
from store.builders import (
    CLAIM,
    LEASE_S,
    SEATS,
    SERVER,
    add,
    add_study,
    advance,
    go,
    hand_over,
    new_job,
    new_trials,
    place,
    reported,
)
from trainshed.lifecycle.events import Command
from trainshed.model.attempt import AttemptKey
from trainshed.model.resources import Node, NodeState
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobState
from trainshed.model.step_times import STEPS
from trainshed.model.time_use import HELD_USES
from trainshed.planning.scaling.calibration_file import read
from trainshed.store import audit, codec, migrate
from trainshed.store.base import StoreFault
from trainshed.store.database import write_engine
from trainshed.store.opening import open_store
from trainshed.store.records.steps import NewEvent
from trainshed.store.tables import METADATA

#: In make test one test migrates PostgreSQL, and each SQLite.
BOTH = ("sqlite", pytest.param("postgres", marks=pytest.mark.full))


@pytest.fixture(params=BOTH)
def first_url(request, tmp_path):
    """A database as the first release made it."""
    return of_version(request, tmp_path, "0001")


@pytest.fixture(params=BOTH)
def second_url(request, tmp_path):
    """One that knows of time and restarts, and not of studies."""
    return of_version(request, tmp_path, "0002")


@pytest.fixture(params=BOTH)
def sixth_url(request, tmp_path):
    """One of a release that had one engine a server."""
    return of_version(request, tmp_path, "0006")


@pytest.fixture(params=BOTH)
def eighth_url(request, tmp_path):
    """One that learned nothing of its jobs."""
    return of_version(request, tmp_path, "0008")


@pytest.fixture(params=["sqlite", "postgres"])
def twelfth_url(request, tmp_path):
    """One of a release that learned from replicas that shared a machine."""
    return of_version(request, tmp_path, "0012")


@pytest.fixture(params=BOTH)
def thirteenth_url(request, tmp_path):
    """One of a release that forgot what jobs used of their machines."""
    return of_version(request, tmp_path, "0013")


@pytest.fixture(params=BOTH)
def fourteenth_url(request, tmp_path):
    """One of a release that knew no single GPU."""
    return of_version(request, tmp_path, "0014")


def of_version(request, tmp_path, version):
    if request.param == "sqlite":
        (tmp_path / "old.db").write_bytes(old_file(version))
        return f"sqlite:///{tmp_path}/old.db"
    url = request.getfixturevalue("postgres").new_database()
    upgrade(url, version)
    return url


@cache
def old_file(version):
    """Return the bytes of a SQLite database of a version."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "old.db")
        file.touch()
        upgrade(f"sqlite:///{file}", version)
        return file.read_bytes()


def upgrade(url, version):
    engine = write_engine(make_url(url))
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(migrate._FOLDER))
        command.upgrade(config, version)
    engine.dispose()


@pytest.fixture
def old(first_url, tmp_path, clock):
    """Its jobs by what they were doing when the last server of that release ended."""
    return fill(first_url, tmp_path, clock)


def filled_folder(tmp_path):
    """The folder of the database of today that an older one is copied from."""
    return tmp_path / "filled"


def fill(url, tmp_path, clock):
    filled = new_database(filled_folder(tmp_path))
    store = open_store(filled, clock)
    limits = {"running_s_max": 60.0, "waiting_s_max": 60.0}
    names = ("waits", "runs", "runs again", "ended")
    uids = {name: add(store, job_id=name, retry_key=name, **limits).uid for name in names}
    store.see_nodes("local", [Node(name="n1")])
    store.set_node_state("local", "n1", NodeState.DRAINED)
    for name in names[1:]:
        place(store, uids[name])
        go(store, uids[name], JobState.RUNNING)
    clock.forward(10)
    go(store, uids["runs again"], JobState.QUEUED)
    go(store, uids["ended"], JobState.SUCCEEDED, commands=(Command.STOP,))
    clock.forward(10)
    place(store, uids["runs again"])
    go(store, uids["runs again"], JobState.RUNNING)
    clock.forward(10)
    store.close()
    copy(filled, url)
    return uids


def copy(source, target):
    """Copy the columns that the target knows; it numbers events and commands itself."""
    there, here = create_engine(source), create_engine(target)
    with there.connect() as reading, here.begin() as writing:
        there_now = inspect(writing).get_table_names()
        for schema in METADATA.sorted_tables:
            if schema.name not in there_now:
                continue
            table = Table(schema.name, MetaData(), autoload_with=writing)
            names = [column.name for column in table.columns if column.name != "seq"]
            rows = reading.execute(select(*(schema.c[name] for name in names)))
            values = [dict(row._mapping) for row in rows]
            if values:
                writing.execute(table.insert(), values)
    there.dispose()
    here.dispose()


@pytest.mark.parametrize("first_url", ["sqlite", "postgres"], indirect=True)
def test_every_job_goes_on_as_it_was(first_url, old, clock):
    store = open_store(first_url, clock)
    records = {name: store.job_by_uid(uid) for name, uid in old.items()}
    assert {name: record.job.status.state for name, record in records.items()} == {
        "waits": JobState.QUEUED,
        "runs": JobState.RUNNING,
        "runs again": JobState.RUNNING,
        "ended": JobState.SUCCEEDED,
    }
    ran_s = {name: record.ran_s for name, record in records.items()}
    assert ran_s == {"waits": 0, "runs": 30, "runs again": 10, "ended": 0}
    assert {record.restarts for record in records.values()} == {Restarts()}
    assert {held.engine for held in store.holding()} == {"local"}
    assert {seat.engine for held in store.holding() for seat in held.seats} == {"local"}
    store.join(SERVER, LEASE_S)
    store.take_over(SERVER)
    commands = [(c.uid, c.kind, c.stop) for c in store.commands(SERVER)]
    assert (old["ended"], Command.STOP, None) in commands
    assert store.add_job(new_job(retry_key="waits")) == (records["waits"], False)
    [order] = store.node_orders()
    assert (order.engine, order.name, order.state, order.notice_s) == (
        "local",
        "n1",
        NodeState.DRAINED,
        None,
    )
    store.close()


def test_nothing_is_ended_for_a_time_that_nobody_counted(first_url, old, clock):
    store = open_store(first_url, clock)
    clock.forward(10_000)
    assert not store.due(limit=9)
    place(store, old["waits"])
    for name in ("runs", "waits"):
        go(store, old[name], JobState.RUNNING)
    clock.forward(60)
    assert [due.uid for due in store.due(limit=9)] == [old["waits"]], "it began under this release"
    go(store, old["runs"], JobState.QUEUED)
    place(store, old["runs"])
    go(store, old["runs"], JobState.RUNNING)
    assert {due.uid for due in store.due(limit=9)} == {old["waits"], old["runs"]}
    store.close()


def test_what_had_ended_can_be_forgotten(first_url, old, clock):
    store = open_store(first_url, clock)
    store.join(SERVER, LEASE_S)
    store.take_over(SERVER)
    store.confirm([c.seq for c in store.commands(SERVER)])
    assert list(store.expired(ended_before=codec.to_time(clock()), limit=9)) == [old["ended"]]
    store.forget([old["ended"]])
    assert store.job_by_uid(old["ended"]) is None
    store.close()


def test_from_the_second_release_on_nothing_changes_and_studies_can_be_added(
    second_url, tmp_path, clock
):
    uids = fill(second_url, tmp_path, clock).values()
    before = open_store(f"sqlite:///{filled_folder(tmp_path)}/trainshed.db", clock)
    store = open_store(second_url, clock)
    clock.forward(30)
    assert store.jobs_by_uid(uids) == before.jobs_by_uid(uids)
    assert list(store.due(limit=9)) == list(before.due(limit=9)) != []
    assert [store.events(uid)[-1].kind for uid in uids] == [
        "ACCEPTED",
        "PLACED",
        "PLACED",
        "PLACED",
    ]
    assert not store.open_studies()
    study = add_study(store).uid
    assert [row.uid for row in store.open_studies()] == [study]
    assert len(advance(store, study, new_trials=new_trials(1), reports=(reported(1, 0.5),))) == 1
    before.close()
    store.close()


def test_jobs_of_the_only_engine_go_on_and_others_are_handed_over(sixth_url, tmp_path, clock):
    uids = fill(sixth_url, tmp_path, clock)
    store = open_store(sixth_url, clock)
    states = {name: store.job_by_uid(uid).job.status.state.value for name, uid in uids.items()}
    assert list(states.values()) == ["QUEUED", "RUNNING", "RUNNING", "SUCCEEDED"]
    keys = [AttemptKey(uids["runs"], 1), AttemptKey(uids["ended"], 1)]
    assert store.engines_of(keys) == dict.fromkeys(keys, "local")
    held = {row.uid: row for row in store.holding()}
    assert held.keys() == {uids["runs"], uids["runs again"]}
    seats = tuple(replace(seat, engine="local") for seat in SEATS)
    assert all(row.place == seats and not row.enqueued for row in held.values())
    hand_over(store, uids["waits"])
    go(store, uids["runs"], JobState.QUEUED)
    hand_over(store, uids["runs"])
    assert store.engines_of([AttemptKey(uids["runs"], 2)]).popitem()[1] == CLAIM.engine
    assert {row.enqueued for row in store.holding()} == {False, True}
    store.close()


def test_jobs_that_ran_before_teach_nothing_and_the_next_ones_do(eighth_url, tmp_path, clock):
    uids = fill(eighth_url, tmp_path, clock)
    store = open_store(eighth_url, clock)
    assert not store.unscored(9)
    steps = (NewEvent(kind=STEPS, message="Steps: 40."),)
    go(store, uids["runs"], JobState.SUCCEEDED, events=steps)
    assert [uid for uid, _ in store.unscored(9)] == [uids["runs"]]
    store.close()


def test_jobs_that_ran_before_are_still_to_be_accounted_for(thirteenth_url, tmp_path, clock):
    uids = fill(thirteenth_url, tmp_path, clock)
    store = open_store(thirteenth_url, clock)
    running = {uids["runs"], uids["runs again"], uids["ended"]}
    assert {job.uid for job in store.changed_jobs(9)} == running
    assert {held.uid for held in store.holding()} == running - {uids["ended"]}
    assert not store.usage_rows(uids["ended"])
    go(store, uids["runs"], JobState.SUCCEEDED)
    assert store.changed_jobs(9)[-1].uid == uids["runs"]
    store.close()


def test_time_that_is_stored_already_goes_to_its_node(fourteenth_url, tmp_path, clock):
    uids = fill(fourteenth_url, tmp_path, clock)
    engine = create_engine(fourteenth_url)
    usage = {"attempt": 1, "machine_type": "t", "day": 20_000, "project": "census",
             "creator": "ada", "job_id": "x", "gpus": 2, "vcpus": 8.0, "placed_ns": 1,
             "price_source": "", "price_date": "", "currency": "", "update_ns": 1,
             **{f"{use}_s": 60.0 if use == "idle" else 0.0 for use in HELD_USES}}  # fmt: skip
    with engine.begin() as connection:
        table = Table("attempt_usage", MetaData(), autoload_with=connection)
        rows = [{**usage, "uid": uid} for uid in (uids["runs"], 999)]
        connection.execute(table.insert(), rows)
        replicas = Table("replicas", MetaData(), autoload_with=connection)
        connection.execute(replicas.update().values(node="n1"))
    engine.dispose()
    store = open_store(fourteenth_url, clock)
    sums = store.machine_sums(since_day=0, until_day=99_999, projects=None)
    store.close()
    nodes = {one.node: (one.usage.gpus, one.usage.seconds, one.gpu) for one in sums}
    whole = (2, {"idle": 60.0}, "")
    assert nodes == {"n1": whole, "": whole}, "the second job was deleted with its replicas"


#: The runs of jobs in a calibration of the twelfth version, by their hosts.
OLD_CALIBRATION = """\
schema = 1

[training]
model = "trainer.task"

[host]
machine_type = "n1-standard-8"
"""
OLD_RUN = """
[[run]]
kind = "job"
accelerators = {hosts}
hosts = {hosts}
steps = 40
step_s = 0.1
"""
#: The nodes of the replicas of one job in each project, of which that project has learned.
NODES_OF = {"shared": ("n1", "n1"), "separate": ("n1", "n2"), "unknown": ("n1", "")}


def learned_by(project, *hosts):
    """The row of a calibration from jobs on so many hosts."""
    document = OLD_CALIBRATION + "".join(OLD_RUN.format(hosts=count) for count in hosts)
    texts = {"model": "trainer.task", "machine_type": "n1-standard-8", "accelerator": "CPU"}
    key = "-".join(map(str, hosts))
    return {"project": project, "key": key, "document": document, **texts, "jobs": 9,
            "update_ns": 1}  # fmt: skip


def test_calibrations_of_shared_machines_are_dropped_and_others_stay(twelfth_url, clock):
    calibrations, outcomes, replicas = (
        METADATA.tables[name] for name in ("calibrations", "outcomes", "replicas")
    )
    old = create_engine(twelfth_url)
    with old.begin() as writing:
        for uid, (project, nodes) in enumerate(NODES_OF.items(), 1):
            score = {"uid": uid, "attempt": 1, "project": project, "content": "{}", "create_ns": 1}
            writing.execute(outcomes.insert(), score)
            for number, node in enumerate(nodes):
                row = {"uid": uid, "attempt": 1, "role": "worker", "number": number, "node": node}
                writing.execute(replicas.insert(), {**row, "task_name": "w", "state": "SUCCEEDED"})
            writing.execute(calibrations.insert(), [learned_by(project, *hosts) for hosts in
                                                    ((1,), (1, 2), (2, 4))])  # fmt: skip
        writing.execute(calibrations.insert(), learned_by("forgotten", 2))
        unreadable = {**learned_by("forgotten", 1), "document": "a ="}
        writing.execute(calibrations.insert(), unreadable)
    old.dispose()
    store = open_store(twelfth_url, clock)
    keys = {
        project: sorted(row.key for row in store.calibrations(project, 9))
        for project in (*NODES_OF, "forgotten")
    }
    assert keys == {
        "shared": ["1"],
        "separate": ["1", "1-2"],
        "unknown": ["1"],
        "forgotten": ["1"],
    }, "the jobs on 4 hosts are not in the database any more"
    runs = read(store.calibration("separate", "1-2").document).runs
    assert [(run.hosts, run.machines) for run in runs] == [(1, 1), (2, 2)]
    store.close()


def test_an_older_database_is_not_audited_but_named(first_url, old):
    assert old
    with pytest.raises(StoreFault, match=rf"older release.*0001.*{migrate.NEWEST}"):
        audit.rows(first_url)
