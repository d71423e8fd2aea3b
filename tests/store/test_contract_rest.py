"""The store's contract: pipelines, operations, projects, buckets, tokens and keys."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

from store.builders import PROJECT, HandClock, go, new_job, place, read
from trainshed.model.access import AccessRole
from trainshed.model.filters import Compare
from trainshed.model.status import JobState
from trainshed.store.opening import Store
from trainshed.store.records.access import SigningKey, Token
from trainshed.store.records.jobs import JobKind, JobQuery
from trainshed.store.records.models import Operation

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
DOCUMENT = json.dumps({"displayName": "train", "labels": {"team": "red"}, "odd": "a\x00\ud800"})


class TestRest:
    """Everything that is not a job."""

    def test_a_project_has_one_small_number_for_ever(self, store: Store) -> None:
        assert [store.owner_number(name) for name in ("a", "b", "a", "c")] == [0, 1, 0, 2]
        with ThreadPoolExecutor(4) as pool:
            numbers = list(pool.map(store.owner_number, [f"p{number % 8}" for number in range(32)]))
        assert sorted(set(numbers)) == list(range(3, 11))
        assert numbers[:8] * 4 == numbers

    def test_a_pipeline_is_a_document_around_a_real_job(self, store: Store) -> None:
        pipeline = store.add_pipeline(new_job(), DOCUMENT, TASK)
        assert (pipeline.display_name, pipeline.labels) == ("train", {"team": "red"})
        assert (pipeline.document, pipeline.task_definition) == (DOCUMENT, TASK)
        assert pipeline.uid != pipeline.child_uid
        child = read(store, pipeline.child_uid)
        assert child.job.status.state is JobState.QUEUED
        assert store.pipeline(PROJECT, pipeline.uid) == (pipeline, child)
        assert store.pipeline("other", pipeline.uid) is None
        store.delete_pipeline(pipeline.uid)
        assert store.pipeline(PROJECT, pipeline.uid) is None
        assert read(store, pipeline.child_uid) == child

    def test_a_repeated_create_of_a_pipeline_finds_the_first(self, store: Store) -> None:
        new = new_job(retry_key="k")
        first = store.add_pipeline(new, DOCUMENT, TASK)
        assert store.add_pipeline(new, DOCUMENT, TASK) == first
        assert store.waiting_count() == 1

    def test_pipelines_are_listed_by_their_own_names_and_their_childs_state(
        self, store: Store, clock: HandClock
    ) -> None:
        added = []
        for name in ("train", "tune", "train"):
            document = json.dumps({"displayName": name, "labels": {"of": name}})
            added.append(store.add_pipeline(new_job(), document, TASK))
            clock.forward(1)
        go(store, added[0].child_uid, JobState.FAILED)
        place(store, added[2].child_uid)
        go(store, added[2].child_uid, JobState.RESTARTING)

        def find_uids(field: str, value: str, operator: str = "=") -> list[int]:
            compare = Compare(field=field, operator=operator, value=value)  # type: ignore[arg-type]
            query = JobQuery(project=PROJECT, kind=JobKind.CUSTOM_JOB, filter=compare)
            return [pipeline.uid for pipeline, _ in store.list_pipelines(query)]

        uids = [pipeline.uid for pipeline in added]
        assert find_uids("display_name", "tr*") == [uids[2], uids[0]]
        assert find_uids("state", "FAILED") == [uids[0]]
        assert find_uids("state", "FAILED", "!=") == [uids[2], uids[1]]
        assert find_uids("state", "RUNNING") == [uids[2]]
        assert find_uids("labels.of", "tune") == [uids[1]]
        assert find_uids("training_task_definition", "*custom_task*") == uids[::-1]
        page = JobQuery(project=PROJECT, kind=JobKind.CUSTOM_JOB, page_size=2)
        [_, (last, _)] = store.list_pipelines(page)
        create_ns = (last.create_time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 10**9
        rest = store.list_pipelines(replace(page, after=(int(create_ns), last.uid)))
        assert [pipeline.uid for pipeline, _ in rest] == [uids[0]]

    def test_operations_are_remembered(self, store: Store) -> None:
        name = f"projects/{PROJECT}/locations/us-central1/operations/1"
        operation = Operation(name=name, project=PROJECT, done=False, create_time=NOW)
        assert store.operation(name) is None
        store.add_operation(operation)
        assert store.operation(name) == operation
        done = replace(operation, done=True)
        store.add_operation(done)
        assert store.operation(name) == done

    def test_a_project_has_one_number_that_leads_back(self, store: Store) -> None:
        name, number = store.project("census")
        assert name == "census"
        assert len(number) == 12
        assert number.isdecimal()
        assert number[0] != "0"
        assert store.project(number) == store.project("census") == (name, number)
        assert store.project("other")[1] != number
        assert store.project("123456789012") == ("123456789012", "123456789012")

    def test_a_bucket_belongs_to_whoever_had_it_first(self, store: Store, clock: HandClock) -> None:
        assert store.bucket("stage") is None
        assert store.add_bucket("stage", "census") == "census"
        clock.forward(1)
        assert store.add_bucket("stage", "other") == "census"
        store.add_bucket("data", "census")
        row = store.bucket("stage")
        assert row is not None
        assert row[0] == "census"
        assert row[1] < datetime.fromtimestamp(clock.now_ns // 10**9, UTC)
        assert list(store.buckets("census")) == ["data", "stage"]
        assert list(store.buckets("other")) == []

    def test_tokens_are_found_by_digest_and_revoked_by_id(self, store: Store) -> None:
        token = Token(
            token_id="t1",
            digest="d1",
            name="ci",
            project=PROJECT,
            role=AccessRole.SUBMITTER,
            create_time=NOW,
        )
        other = replace(token, token_id="t0", digest="d0", project="*", role=AccessRole.ADMIN)
        store.add_token(token)
        store.add_token(other)
        assert store.token("d1") == token
        assert store.token("d2") is None
        assert list(store.tokens()) == [other, token]
        assert store.revoke_token("t1")
        assert not store.revoke_token("t2")
        assert store.token("d1") == replace(token, revoked=True)

    def test_keys_are_found_by_their_account(self, store: Store) -> None:
        key = SigningKey(
            key_id="k1",
            email="robot@census",
            public_key="PEM",
            project=PROJECT,
            role=AccessRole.VIEWER,
            create_time=NOW,
        )
        store.add_key(key)
        store.add_key(replace(key, key_id="k2", email="other@census"))
        assert list(store.keys("robot@census")) == [key]
        assert [k.key_id for k in store.all_keys()] == ["k1", "k2"]
        assert store.remove_key("k1")
        assert not store.remove_key("k1")
        assert list(store.keys("robot@census")) == []
