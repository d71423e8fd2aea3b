"""What is asked or written often is found by an index, however many jobs there are."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import inspect, make_url

from store.builders import new_job, place
from trainshed.model.filters import AllOf
from trainshed.model.status import FINAL, JobState
from trainshed.store import (
    job_rows,
    jobs,
    machine_usage,
    marks,
    models,
    open_job_counts,
    pipelines,
    rows,
    step_rows,
    steps,
    story,
    studies,
    study_rows,
    usage,
    work,
)
from trainshed.store.database import write_engine
from trainshed.store.listed_jobs import JobListQuery
from trainshed.store.migrate import migrate
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind, JobQuery

PAGE = JobQuery(project="p", kind=JobKind.CUSTOM_JOB, filter=AllOf(), after=(1, 1))

RUNS = frozenset({JobState.RUNNING})


def page_of_all(project, **more):
    return job_rows.page_of(JobListQuery(project=project, after=(1, 1), **more))


LISTS = {
    "all jobs": page_of_all(None),
    "all jobs of a project": page_of_all("p"),
    "all that ended": page_of_all("p", states=FINAL),
    "all open": page_of_all(None, is_open=True),
    "all open of a project": page_of_all("p", is_open=True),
    "all that run": page_of_all(None, states=RUNS),
    "all that run in a project": page_of_all("p", states=RUNS),
}

HOT = {
    **LISTS,
    "nodes of listed jobs": job_rows.NODES,
    "open counts": job_rows.counts_of(None),
    "open states": job_rows.OPEN_STATES,
    "open marks": marks.OPEN_MARKS,
    "some marks": marks.MARKS_OF,
    "ended since": marks.ENDED_SINCE,
    "last stamps": marks.LAST_STAMPS,
    "marks of trials": marks.TRIAL_MARKS,
    "by name": jobs.BY_NAME,
    "by uid": jobs.BY_UID,
    "list": jobs.page_of(PAGE),
    "pipelines": pipelines.page_of(PAGE),
    "models": models.page_of(PAGE),
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
    "oldest in the queue": open_job_counts.OLDEST,
    "reasons of the front": open_job_counts.FRONT,
    "reasons in engines": open_job_counts.ENQUEUED,
    "events": story.EVENTS_OF_JOB,
    "events of a kind": story.EVENTS_OF_KIND,
    "events before": story.EVENTS_BEFORE,
    "held events": story.HELD_EVENTS,
    "last of kinds": story.LAST_OF_KINDS,
    "take over": work.TAKE_OVER,
    "explain": work.EXPLAIN,
    "commands": work.COMMANDS_OF_SERVER,
    "active of some": work.of_some(work.ACTIVE),
    "some jobs": jobs.BY_UIDS,
    "confirm": work.CONFIRM,
    "due": work.DUE,
    "expired": jobs.EXPIRED,
    "over": jobs.OVER,
    "open studies": studies.open_studies("sqlite"),
    "begin study": studies.BEGIN_STUDY,
    "trials": study_rows.TRIALS_OF_STUDY,
    "results of trials": study_rows.RESULTS_OF_STUDY,
    "trials after": study_rows.TRIALS_AFTER,
    "newest trials": study_rows.NEWEST_TRIALS,
    "reports of trials": study_rows.REPORTS_OF_TRIALS,
    "jobs of trials": studies.JOBS_OF_STUDY,
    "reports": study_rows.REPORTS_OF_STUDY,
    "taken trials": studies.TAKEN,
    "change trials": study_rows.CHANGE_TRIALS,
    "mark trials": study_rows.MARK_TRIALS,
    "hide trials": study_rows.HIDE_TRIALS,
    **{f"drop {place} {drop.table.name}": drop for place, drop in enumerate(jobs.DROPS)},
    **{f"step to {state.name}": steps.STATEMENTS[state, False] for state in JobState},
    "opening step": steps.STATEMENTS[JobState.PREPARING, True],
    "hand-over": steps.STATEMENTS[JobState.ENQUEUED, True],
    "under way": work.HANDING_OVER,
    "engines": work.ENGINES,
    "place": step_rows.PLACE,
    "jobs whose seats changed": usage.CHANGED,
    "jobs that use machines": usage.JOBS_IN_USE,
    "their replicas": usage.REPLICAS_IN_USE,
    "drop usage": usage.DROP,
    "drop usage of machines": machine_usage.DROP_MACHINES,
    "events of several jobs": story.ADD_EVENTS,
    "jobs with an event of a kind": story.HAVING_EVENT,
    "time of attempts": usage.ATTEMPT_USES,
}
#: Tables that are never large: those who live, and what is still to be done.
SMALL = ("leases", "commands")


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    path = tmp_path_factory.mktemp("db") / "x.db"
    path.touch()
    engine = write_engine(make_url(f"sqlite:///{path}"))
    with engine.begin() as opened:
        migrate(opened)
        yield opened
    engine.dispose()


@pytest.mark.parametrize("name", HOT)
def test_no_table_is_read_as_a_whole_or_sorted(connection, name):
    plan = plan_of(connection, HOT[name])
    assert not [detail for detail in plan if is_bad(detail)], plan


def plan_of(connection, statement):
    compiled = statement.compile(connection, compile_kwargs={"render_postcompile": True})
    params = {key: value if value is not None else 1 for key, value in compiled.params.items()}
    values = tuple(params[key] for key in compiled.positiontup)
    plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled.string}", values)
    return [row.detail for row in plan]


@pytest.mark.parametrize(
    "name",
    [
        "all open",
        "all open of a project",
        "all that run",
        "all that run in a project",
        "open counts",
        "open states",
        "open marks",
    ],
)
def test_jobs_that_are_not_over_are_found_without_the_history(connection, name):
    assert "USING INDEX jobs_open " in plan_of(connection, HOT[name])[0]


@pytest.mark.parametrize("by", usage.KEYS)
def test_usage_of_a_year_is_read_in_the_order_of_its_table(connection, by):
    """An index would name the rows in another order, one page for each."""
    for query in (usage.sums_by, usage.jobs_by):
        scan, *_ = plan_of(connection, query(by, None, 365))
        assert scan.partition(" USING COVERING INDEX ")[0] == "SCAN attempt_usage"


@pytest.mark.parametrize("by", usage.KEYS)
def test_usage_of_a_day_is_read_by_the_index_of_days(connection, by):
    for query in (usage.sums_by, usage.jobs_by):
        [search] = [d for d in plan_of(connection, query(by, None, 1)) if "TEMP" not in d]
        assert search.startswith("SEARCH attempt_usage USING INDEX attempt_usage_by_day")


def test_open_studies_are_read_without_the_jobs_in_the_queue(connection):
    plan = plan_of(connection, studies.open_studies("sqlite"))
    assert plan == ["SCAN jobs USING INDEX jobs_open_studies"]


def test_the_rows_of_some_jobs_are_found_by_their_uids(connection):
    statement = job_rows.ROWS_OF.params(wanted="[]")
    compiled = statement.compile(connection, compile_kwargs={"literal_binds": True})
    plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}")]
    assert not [detail for detail in plan if is_bad(detail)], plan
    assert "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)" in plan


def is_bad(detail):
    if detail.startswith("SCAN") and "VIRTUAL TABLE" not in detail and "CONSTANT ROW" not in detail:
        return "USING" not in detail and detail.split()[1] not in SMALL
    return "TEMP B-TREE FOR ORDER BY" in detail


@pytest.fixture(scope="module")
def busy_store(postgres):
    """Many jobs, and a planner without statistics: autovacuum would make some in its own time."""
    store = open_store(postgres.new_database())
    store._db.write(_make_no_statistics)
    with ThreadPoolExecutor(8) as pool:
        for record, _ in pool.map(lambda _: store.add_job(new_job()), range(1000)):
            place(store, record.uid) if record.uid % 4 == 0 else None
    yield store
    store.close()


def _make_no_statistics(tx):
    for table in inspect(tx.connection).get_table_names():
        tx.connection.exec_driver_sql(f'ALTER TABLE "{table}" SET (autovacuum_enabled = false)')


@pytest.mark.parametrize("name", LISTS)
def test_postgresql_reads_a_page_of_all_jobs_in_its_order(busy_store, name):
    def explain(connection):
        compiled = LISTS[name].compile(connection, compile_kwargs={"render_postcompile": True})
        return [
            row[0] for row in connection.exec_driver_sql(f"EXPLAIN {compiled}", compiled.params)
        ]

    lines = busy_store._db.read(explain)
    plan = "\n".join(lines)
    sort_keys = [line for line in lines if "Sort Key" in line]
    assert all("queue.rank" in key for key in sort_keys), f"only the front may be sorted: {plan}"
    assert "Seq Scan on jobs" not in plan, plan


BY_KEY = {
    "explain": work.EXPLAIN,
    "drop replicas": step_rows.DROP_REPLICAS,
    "change trials": study_rows.CHANGE_TRIALS,
    "mark trials": study_rows.MARK_TRIALS,
    "hide trials": study_rows.HIDE_TRIALS,
    **{f"step {key}": statement for key, statement in steps.STATEMENTS.items()},
}


@pytest.mark.parametrize("name", BY_KEY)
def test_postgresql_goes_to_each_row_by_its_key(busy_store, name):
    def explain(tx):
        compiled = BY_KEY[name].compile(tx.connection)
        rows = json.dumps([[1, 1, 0, None, None, None, None, None, None]] * 5)
        params = {**compiled.params, "now_ns": 1, "mark": 1}
        params |= dict.fromkeys(("steps", "explanations", "gone", "changed", "marked"), rows)
        return [row[0] for row in tx.connection.exec_driver_sql(f"EXPLAIN {compiled}", params)]

    plan = "\n".join(busy_store._db.write(explain))
    assert re.search(r"Index (Only )?Scan using (jobs|replicas|trials)_pkey", plan), plan
    assert "Cond: " in plan
    assert len(re.findall("(Index|Seq)( Only)? Scan", plan)) == plan.count("Index Cond"), plan


@pytest.mark.parametrize("name", ["over", *(drop.table.name for drop in jobs.DROPS)])
def test_postgresql_forgets_without_reading_what_it_keeps(busy_store, name):
    statements = {"over": jobs.OVER, **{d.table.name: d for d in jobs.DROPS}}

    def explain(tx):
        compiled = statements[name].compile(tx.connection)
        params = {**compiled.params, "gone": json.dumps([[1]] * 5)}
        return [row[0] for row in tx.connection.exec_driver_sql(f"EXPLAIN {compiled}", params)]

    plan = "\n".join(busy_store._db.write(explain))
    assert "Seq Scan" not in plan, plan
