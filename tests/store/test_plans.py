"""What is asked often is found by an index, however many jobs there are."""

import pytest
from sqlalchemy import make_url

from trainshed.model.filters import AllOf
from trainshed.model.status import JobState
from trainshed.store import jobs, pipelines, rows, steps, story, work
from trainshed.store.database import write_engine
from trainshed.store.migrate import migrate
from trainshed.store.records import JobQuery, Kind

PAGE = JobQuery(project="p", kind=Kind.CUSTOM_JOB, filter=AllOf(), after=(1, 1))

HOT = {
    "by name": jobs.BY_NAME,
    "by uid": jobs.BY_UID,
    "list": jobs.page_of(PAGE),
    "pipelines": pipelines.page_of(PAGE),
    "place in line": jobs.BEFORE,
    "waiting": work.WAITING,
    "waiting on": work.WAITING_AFTER,
    "waiting count": work.WAITING_COUNT,
    "unexplained": work.UNEXPLAINED,
    "holding": rows.HOLDING,
    "came": work.CAME,
    "gone": work.CHANGED,
    "active": work.ACTIVE,
    "counts": jobs.COUNTS,
    "events": story.EVENTS_OF_JOB,
    "take over": work.TAKE_OVER,
    "explain": work.EXPLAIN,
    "commands": work.COMMANDS_OF_SERVER,
    **{f"step to {state.name}": steps.STATEMENTS[state, False] for state in JobState},
    "opening step": steps.STATEMENTS[JobState.PREPARING, True],
}
#: Tables that are never large: those who live, and what is still to be done.
SMALL = ("leases", "commands")


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    engine = write_engine(make_url(f"sqlite:///{tmp_path_factory.mktemp('db')}/x.db"))
    with engine.begin() as opened:
        migrate(opened)
        yield opened
    engine.dispose()


@pytest.mark.parametrize("name", HOT)
def test_no_table_is_read_as_a_whole_or_sorted(connection, name):
    compiled = HOT[name].compile(connection)
    known = {key: value if value is not None else 1 for key, value in compiled.params.items()}
    plan = connection.exec_driver_sql(
        f"EXPLAIN QUERY PLAN {compiled.string}",
        tuple(known[key] for key in compiled.positiontup),
    ).all()
    bad = [row.detail for row in plan if is_bad(row.detail)]
    assert not bad, [row.detail for row in plan]


def is_bad(detail):
    if detail.startswith("SCAN") and "json_each" not in detail and "CONSTANT ROW" not in detail:
        return "USING" not in detail and detail.split()[1] not in SMALL
    return "TEMP B-TREE FOR ORDER BY" in detail
