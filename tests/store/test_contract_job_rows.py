"""The store's contract: the one list of jobs of all kinds."""

import json

from store.builders import (
    NS_PER_S,
    PROJECT,
    HandClock,
    add,
    add_study,
    advance,
    go,
    new_job,
    new_trials,
    place,
)
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobState
from trainshed.store.listed_jobs import JobListQuery, JobListRow, ListedKind
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind


def names(store: Store, **query: object) -> list[str]:
    """The display names of a page, in its order."""
    criteria = {"project": PROJECT, **query}
    return [row.display_name for row in store.job_rows(JobListQuery(**criteria))]  # type: ignore[arg-type]


def only_row(store: Store, **query: object) -> JobListRow:
    """The row that a query leaves."""
    criteria = {"project": PROJECT, **query}
    [row] = store.job_rows(JobListQuery(**criteria))  # type: ignore[arg-type]
    return row


class TestJobRows:
    """The list."""

    def test_jobs_of_all_kinds_stand_in_one_list_the_newest_first(
        self, store: Store, clock: HandClock
    ) -> None:
        add(store, kind=JobKind.ML_JOB, job_id="ml", display_name="")
        clock.forward(1)
        add(store, display_name="custom")
        clock.forward(1)
        add_study(store, job_id="ml_tuning", display_name="")
        clock.forward(1)
        add_study(store, kind=JobKind.TUNING_JOB, job_id="", display_name="tuning")
        clock.forward(1)
        document = json.dumps({"displayName": "piped"})
        pipeline = store.add_pipeline(new_job(display_name="behind it"), document, "task")
        clock.forward(1)
        add(store, project="other", display_name="foreign")
        rows = store.job_rows(JobListQuery(project=PROJECT))
        assert [(row.display_name, row.kind.value) for row in rows] == [
            ("piped", "TRAINING_PIPELINE"),
            ("tuning", "TUNING_JOB"),
            ("ml_tuning", "TUNING_JOB"),
            ("custom", "CUSTOM_JOB"),
            ("ml", "AI_PLATFORM_JOB"),
        ]
        parent = f"projects/{PROJECT}/locations/us-central1"
        assert rows[0].name == f"{parent}/trainingPipelines/{pipeline.uid}"
        assert rows[-1].name == f"projects/{PROJECT}/jobs/ml"
        assert names(store, project=None)[0] == "foreign"
        store.delete_pipeline(pipeline.uid)
        assert names(store)[0] == "behind it", "the custom job is there without its pipeline"

    def test_a_page_goes_on_behind_the_last_row(self, store: Store, clock: HandClock) -> None:
        for number in range(7):
            add(store, display_name=str(number))
            clock.forward(number % 2)  # some are of one moment
        rows: list[JobListRow] = []
        after = None
        while page := store.job_rows(JobListQuery(project=PROJECT, page_size=3, after=after)):
            assert len(page) <= 3
            rows += page
            after = (page[-1].create_ns, page[-1].uid)
        assert [row.display_name for row in rows] == list("6543210")

    def test_a_row_says_where_a_job_runs_and_since_when(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store, creator="ada").uid
        waiting = only_row(store)
        assert (waiting.node, waiting.nodes, waiting.start_ns) == ("", 0, None)
        assert (waiting.replicas, dict(waiting.gpus)) == (3, {"NVIDIA_TESLA_T4": 2})
        clock.forward(5)
        place(store, uid)
        go(store, uid, JobState.RUNNING, restarts=Restarts(infra=2))
        clock.forward(10)
        go(store, uid, JobState.SUCCEEDED)
        row = only_row(store)
        assert (row.node, row.nodes, row.creator) == ("n1", 2, "ada")
        assert (row.attempt, row.restarts, row.state) == (1, 2, JobState.SUCCEEDED)
        assert row.start_ns == row.create_ns + 5 * NS_PER_S
        assert row.end_ns == row.start_ns + 10 * NS_PER_S

    def test_a_row_says_why_a_job_waits_while_it_does(self, store: Store) -> None:
        record = add(store)
        assert only_row(store).reason is None
        why = Explanation(reason=Reason.CAPACITY, message="full")
        store.explain({record.uid: why})
        assert only_row(store).reason == "CAPACITY"
        place(store, record.uid)
        assert only_row(store).reason is None

    def test_a_name_is_found_as_it_is_written_in_any_script(self, store: Store) -> None:
        add(store, display_name="Étude_Ж")
        assert names(store, text="Étude_Ж") == ["Étude_Ж"]
        assert names(store, text="ÉTUDE_Ж"[1:]) == ["Étude_Ж"]

    def test_filters_leave_what_passes_all_of_them(self, store: Store, clock: HandClock) -> None:
        old = add(store, display_name="Old_1", creator="eve", labels={"team": "red"})
        clock.forward(60)
        run = add(store, display_name="run", creator="bob", labels={"team": "blue"})
        since = run.job.status.create_time
        place(store, run.uid)
        go(store, run.uid, JobState.RUNNING)
        go(store, old.uid, JobState.CANCELLED)
        add(store, kind=JobKind.ML_JOB, job_id="waits")
        assert names(store, states=frozenset({JobState.RUNNING})) == ["run"]
        ended = frozenset({JobState.CANCELLED, JobState.FAILED})
        assert names(store, states=ended) == ["Old_1"]
        assert names(store, is_open=True) == ["census", "run"]
        assert names(store, is_open=True, states=frozenset({JobState.RUNNING})) == ["run"]
        assert names(store, is_open=True, states=ended) == []
        assert set(names(store, states=ended | {JobState.QUEUED})) == {"Old_1", "census"}
        assert names(store, kinds=frozenset({ListedKind.AI_PLATFORM_JOB})) == ["census"]
        assert names(store, creator="eve") == ["Old_1"]
        assert names(store, label=("team", None)) == ["run", "Old_1"]
        assert names(store, label=("team", "blue")) == ["run"]
        assert names(store, text="oLD_") == ["Old_1"]
        assert names(store, text="wait") == ["census"], "by its id"
        assert names(store, text="%") == []
        assert names(store, text="/") == []
        assert names(store, since=since) == ["census", "run"]
        assert names(store, creator="eve", states=frozenset({JobState.RUNNING})) == []

    def test_deleted_jobs_are_gone_and_trials_are_there_for_who_asks(self, store: Store) -> None:
        gone = add(store, display_name="gone")
        go(store, gone.uid, JobState.CANCELLED)
        store.delete_job(gone.uid)
        study = add_study(store)
        advance(store, study.uid, new_trials=new_trials(1, 2))
        assert only_row(store).uid == study.uid
        trials = store.job_rows(JobListQuery(project=PROJECT, kinds=frozenset({ListedKind.TRIAL})))
        assert len(trials) == 2
        assert {row.kind for row in trials} == {ListedKind.TRIAL}

    def test_open_jobs_are_counted_as_they_are_listed(self, store: Store) -> None:
        add(store)
        place(store, add(store).uid)
        go(store, add(store).uid, JobState.CANCELLED)
        add(store, project="other")
        assert store.open_counts(PROJECT) == {"QUEUED": 1, "PREPARING": 1}
        assert store.open_counts(None) == {"QUEUED": 2, "PREPARING": 1}
