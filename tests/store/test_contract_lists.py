"""The store's contract: lists, their pages and their filters."""

from datetime import UTC, datetime, timedelta

from store.builders import PROJECT, HandClock, add, add_study, advance, go, new_trials, place
from trainshed.model.filters import AllOf, AnyOf, Compare, Filter, Not
from trainshed.model.job import Scheduling
from trainshed.model.status import JobState
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobQuery, JobRecord


def _priority(priority: int) -> Scheduling:
    return Scheduling(priority=priority)


def _ns(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def _create_ns(record: JobRecord) -> int:
    time = record.job.status.create_time
    assert time is not None
    return _ns(time)


def _is(field: str, value: str) -> Compare:
    return Compare(field=field, operator="=", value=value)


def _differs(field: str, value: str) -> Compare:
    return Compare(field=field, operator="!=", value=value)


def _ids(store: Store, item: Filter) -> set[str]:
    query = JobQuery(project=PROJECT, kind=JobKind.ML_JOB, filter=item)
    return {record.job.job_id for record in store.list_jobs(query)}


class TestLists:
    """Lists."""

    def test_the_jobs_whose_logs_may_have_lines_of_a_time_are_told_without_trials(
        self, store: Store, clock: HandClock
    ) -> None:
        early = add(store)
        go(store, early.uid, JobState.CANCELLED)
        clock.forward(100)
        study = add_study(store)
        advance(store, study.uid, new_trials=new_trials(1, 2))
        add(store, project="other")
        middle_ns = _ns(store.now())
        clock.forward(100)
        late = add(store)

        def uids(from_ns: int, before_ns: int) -> set[int]:
            return {job.uid for job in store.logged_jobs(PROJECT, from_ns, before_ns)}

        everything = (1 << 63) - 1
        assert uids(0, everything) == {early.uid, study.uid, late.uid}
        assert uids(middle_ns, everything) == {study.uid, late.uid}
        assert uids(0, middle_ns) == {early.uid}
        assert uids(middle_ns, middle_ns + 1) == {study.uid}

    def test_a_list_has_the_newest_first_and_goes_on_where_it_stopped(
        self, store: Store, clock: HandClock
    ) -> None:
        added = []
        for number in range(7):
            added.append(add(store).uid)
            clock.forward(number % 2)  # some are of one moment
        add(store, kind=JobKind.ML_JOB, job_id="j")
        add(store, project="other")
        records: list[JobRecord] = []
        query = JobQuery(project=PROJECT, kind=JobKind.CUSTOM_JOB, page_size=3)
        while page := store.list_jobs(query):
            assert len(page) <= 3
            records += page
            create_ns = _create_ns(page[-1])
            query = JobQuery(
                project=PROJECT,
                kind=JobKind.CUSTOM_JOB,
                page_size=3,
                after=(create_ns, page[-1].uid),
            )
        assert [record.uid for record in records] == added[::-1]

    def test_a_list_can_be_of_one_location(self, store: Store) -> None:
        add(store)
        there = add(store, location="europe-west4").uid
        query = JobQuery(project=PROJECT, kind=JobKind.CUSTOM_JOB, location="europe-west4")
        assert [record.uid for record in store.list_jobs(query)] == [there]

    def test_ids_are_compared_whole_or_with_wildcards(self, store: Store) -> None:
        for name in ("census_1", "censusA1", "Census_1", "rnn%", "rnn"):
            add(store, kind=JobKind.ML_JOB, job_id=name)
        assert _ids(store, _is("job_id", "rnn")) == {"rnn"}
        assert _ids(store, _is("job_id", "census*")) == {"census_1", "censusA1"}
        assert _ids(store, _is("job_id", "*_1")) == {"census_1", "Census_1"}
        assert _ids(store, _is("job_id", "rnn%*")) == {"rnn%"}
        assert _ids(store, _is("job_id", "r*n*")) == {"rnn%", "rnn"}
        has = Compare(field="job_id", operator=":", value="C*")
        assert _ids(store, has) == {"Census_1"}
        assert _ids(store, Not(_is("job_id", "*n*"))) == set()
        assert _ids(store, _differs("job_id", "rnn*")) == {
            "census_1",
            "censusA1",
            "Census_1",
            "rnn%",
            "rnn",
        }, "a wildcard is none in !="

    def test_states_labels_and_names_can_be_asked_for(self, store: Store) -> None:
        red = add(store, kind=JobKind.ML_JOB, job_id="red", labels={"team": "red", "x": "1"})
        add(store, kind=JobKind.ML_JOB, job_id="blue", labels={"team": "blue"})
        add(store, kind=JobKind.ML_JOB, job_id="bare")
        go(store, red.uid, JobState.CANCELLED)
        assert _ids(store, _is("state", "CANCELLED")) == {"red"}
        assert _ids(store, _differs("state", "CANCELLED")) == {"blue", "bare"}
        assert _ids(store, _is("labels.team", "red")) == {"red"}
        assert _ids(store, _is("labels.team", "*")) == {"red", "blue"}
        assert _ids(store, _differs("labels.team", "red")) == {"blue", "bare"}
        assert _ids(store, _is("display_name", "census")) == {"red", "blue", "bare"}
        assert _ids(store, _is("training_task_definition", "*")) == set()
        store.set_labels(red.uid, {"team": "green"}, None)
        assert _ids(store, _is("labels.team", "red")) == set()
        assert _ids(store, _is("labels.x", "*")) == set()

    def test_a_job_that_is_restarted_runs_for_whoever_asks(self, store: Store) -> None:
        for name, state in (("run", JobState.RUNNING), ("again", JobState.RESTARTING)):
            uid = add(store, kind=JobKind.ML_JOB, job_id=name).uid
            place(store, uid)
            go(store, uid, state)
        add(store, kind=JobKind.ML_JOB, job_id="wait")
        for word in ("RUNNING", "RESTARTING"):
            assert _ids(store, _is("state", word)) == {"run", "again"}
            assert _ids(store, _differs("state", word)) == {"wait"}
            assert _ids(store, Not(_is("state", word))) == {"wait"}
        assert _ids(store, _is("state", "QUEUED")) == {"wait"}
        counted = store.counts()
        assert counted[PROJECT, "RESTARTING"] == counted[PROJECT, "RUNNING"] == 1

    def test_filters_combine(self, store: Store) -> None:
        for name in ("a1", "a2", "b1"):
            add(store, kind=JobKind.ML_JOB, job_id=name, labels={"n": name[1]})
        a, one = _is("job_id", "a*"), _is("labels.n", "1")
        assert _ids(store, AllOf((a, one))) == {"a1"}
        assert _ids(store, AnyOf((a, one))) == {"a1", "a2", "b1"}
        assert _ids(store, AllOf((Not(a), one))) == {"b1"}
        assert _ids(store, AllOf()) == {"a1", "a2", "b1"}

    def test_create_times_can_be_compared(self, store: Store, clock: HandClock) -> None:
        first = add(store, kind=JobKind.ML_JOB, job_id="first")
        clock.forward(0.5)
        add(store, kind=JobKind.ML_JOB, job_id="second")
        time = first.job.status.create_time
        assert time is not None
        later = Compare(field="create_time", operator=">", value=time)
        assert _ids(store, later) == {"second"}
        at_once = Compare(field="create_time", operator="<=", value=time)
        assert _ids(store, at_once) == {"first"}
        equal = Compare(field="create_time", operator="=", value=time + timedelta(seconds=0.5))
        assert _ids(store, equal) == {"second"}

    def test_the_queue_is_by_priority_then_age(self, store: Store, clock: HandClock) -> None:
        uids = []
        for priority in (0, 5, 0, 9, 5):
            uids.append(add(store, scheduling=_priority(priority)).uid)
            clock.forward(1)
        order = [uids[3], uids[1], uids[4], uids[0], uids[2]]
        assert [job.uid for job in store.waiting(limit=9)] == order
        assert [store.queue_position(uid) for uid in order] == [0, 1, 2, 3, 4]
        place(store, order[1])
        assert store.queue_position(order[1]) is None
        assert store.queue_position(order[2]) == 1
        head = store.waiting(limit=2)
        time = head[-1].create_time
        after = (head[-1].priority, _ns(time), head[-1].uid)
        rest = store.waiting(limit=9, after=after)
        assert [job.uid for job in (*head, *rest)] == [order[0], *order[2:]]
