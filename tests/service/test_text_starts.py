"""Would a text's job start now, and a stored job as a text, with the change that would start it."""

from dataclasses import replace

import pytest
import yaml

from service.submitting import PLACE, PROJECT, Desk, custom_job, ml_job, pool
from service.test_text_check import apply
from trainshed.engines.base import NodeLocation, PlacedBy, Traits
from trainshed.engines.several import Engines, ServedEngine
from trainshed.model.explanation import Change, Explanation, Reason
from trainshed.model.resources import FleetPolicy, Node, NodeState, Seat
from trainshed.model.roles import Role
from trainshed.model.status import JobState
from trainshed.placement.jobs import QuotaRule
from trainshed.service.texts.stored_texts import next_id
from trainshed.store.listed_jobs import ListedKind
from trainshed.store.records.steps import Step
from trainshed.testing.fake_engine import FakeEngine
from trainshed.wire.documents import read_documents

T4 = "NVIDIA_TESLA_T4"


def node(name="n", gpus=2, **more):
    return Node(name=name, gpus={T4: gpus}, policy=FleetPolicy.BEST_EFFORT, **more)


def gpu_pool(gpus, count=1):
    return pool(count=count, acceleratorType=T4, acceleratorCount=gpus)


def gpu_job(gpus, *pools, **words):
    return yaml.safe_dump(custom_job(gpu_pool(gpus), *pools, **words))


def gpu_ml(gpus, **words):
    config = {"acceleratorConfig": {"count": str(gpus), "type": T4}}
    return yaml.safe_dump(ml_job(scaleTier="CUSTOM", masterType="n1-standard-8",
                                 masterConfig=config, **words))  # fmt: skip


def start(desk, text, location=PLACE):
    answer = desk.texts.check(PROJECT, text, location)
    assert answer.valid, answer.violations
    return answer.start


def run(desk, text):
    """Submit a job and seat it, as the scheduler would."""
    name = desk.texts.submit(PROJECT, text, PLACE, creator="ann")
    record = next(r for r in desk.store.waiting(limit=100) if r.name == name.name)
    seats = tuple(
        Seat(role=group.role, index=i, node="n", engine="local")
        for group in record.demand.groups
        for i in range(group.count)
    )
    step = Step(uid=record.uid, version=record.version, state=JobState.PREPARING, seats=seats)
    assert list(desk.store.apply([step])) == [True]
    return record


def explain(desk, record):
    """Store why a waiting job waits, as the scheduler would."""
    stored = desk.store.job_by_uid(record.uid)
    forecasts = desk.texts.starts.forecasts
    assert forecasts.can_tell()
    plan = forecasts._planner.plan(forecasts._queue, 0.0, explain_uids=(record.uid,))
    desk.store.explain({record.uid: plan.waiting[record.uid]})
    return desk.store.job_by_uid(stored.uid)


def test_an_idle_fleet_starts_a_job_now(desk):
    desk.store.see_nodes("local", [node()])
    assert start(desk, gpu_job(2)).now
    assert start(desk, gpu_ml(2)).now


def test_a_start_names_the_nodes_that_only_emulate_gpus(desk):
    emulating = replace(node("e"), policy=FleetPolicy.EMULATE, gpus={})
    desk.store.see_nodes("local", [emulating])
    assert (start(desk, gpu_job(2)).now, start(desk, gpu_job(2)).emulated_on) == (True, ["e"])
    assert start(desk, yaml.safe_dump(custom_job())).emulated_on == []
    desk.store.see_nodes("local", [emulating, node("real")])
    desk.texts.starts.forecasts._read_at = float("-inf")
    assert start(desk, gpu_job(2)).emulated_on == []


@pytest.mark.parametrize(("make", "written_as"), [(gpu_job, "1"), (gpu_ml, "'1'")])
def test_a_busy_fleet_says_why_and_which_edit_would_start_it(desk, make, written_as):
    desk.store.see_nodes("local", [node(gpus=3)])
    run(desk, gpu_job(2))
    text = make(2)
    forecast = start(desk, text)
    assert (forecast.now, forecast.refused, forecast.reason) == (False, False, Reason.CAPACITY)
    assert T4 in forecast.message
    assert forecast.change.sentence == f"would start now with 1 instead of 2 {T4}"
    assert forecast.change.edit.text == written_as
    changed = apply(text, forecast.change.edit)
    assert start(desk, changed).now
    assert changed.count("\n") == text.count("\n")


def test_a_job_waits_behind_others_with_the_same_demand(desk):
    desk.store.see_nodes("local", [node(gpus=2)])
    run(desk, gpu_job(2))
    desk.texts.submit(PROJECT, gpu_job(2), PLACE, creator="ann")
    assert start(desk, gpu_job(2)).reason is Reason.BEHIND_QUEUE


def test_a_job_that_fits_no_node_would_be_refused_with_a_change(desk):
    desk.store.see_nodes("local", [node(gpus=2)])
    forecast = start(desk, gpu_job(4))
    assert (forecast.now, forecast.refused, forecast.reason) == (
        False, True, Reason.NO_SUCH_NODE,
    )  # fmt: skip
    assert forecast.change.sentence == f"could run with 2 instead of 4 {T4}"
    assert start(desk, apply(gpu_job(4), forecast.change.edit)).now


def test_another_region_is_another_location(desk):
    desk.store.see_nodes("local", [node(gpus=4, region="europe-west4")])
    forecast = start(desk, gpu_job(4))
    assert (forecast.change.location, forecast.change.edit) == ("europe-west4", None)
    text = gpu_ml(4)
    change = start(desk, text).change
    assert change.location is None
    assert start(desk, apply(text, change.edit)).now


def test_fewer_workers_are_an_edit_of_their_count(desk):
    desk.store.see_nodes("local", [node(gpus=2)])
    text = gpu_job(1, gpu_pool(1, count=3))
    change = start(desk, text).change
    assert change.edit.text == "1"
    assert start(desk, apply(text, change.edit)).now


def test_drained_nodes_and_quotas_are_reasons(store):
    desk = Desk(store, quotas=(QuotaRule(accelerator=T4, limit=2),))
    store.see_nodes("local", [node("n", gpus=8)])
    assert start(desk, gpu_job(2)).now
    assert start(desk, gpu_job(4)).reason is Reason.QUOTA
    run(desk, gpu_job(2))
    assert start(desk, gpu_job(1)).reason is Reason.QUOTA
    store.see_nodes("local", [node("n", gpus=8, state=NodeState.DRAINED)])
    assert start(Desk(store), gpu_job(2)).reason is Reason.DRAINED


def test_a_full_project_would_refuse_the_job(store):
    desk = Desk(store, project_jobs_max=1)
    store.see_nodes("local", [node()])
    desk.ml(ml_job())
    forecast = start(desk, gpu_job(1))
    assert (forecast.now, forecast.refused) == (False, True)
    assert "limits.project_jobs_max" in forecast.message


def test_checks_leave_nothing_behind(desk):
    desk.store.see_nodes("local", [node()])
    for text in (gpu_job(2), gpu_job(4), "broken: ["):
        desk.texts.check(PROJECT, text, PLACE)
    assert desk.store.open_count(PROJECT) == 0
    assert desk.woken == 0


# engines with queues of their own


def queue_engine(**traits):
    engine = FakeEngine([])
    engine.traits = Traits(
        reach=NodeLocation.ANY, python="python3", places=PlacedBy.ENGINE, **traits
    )
    return engine


def test_the_engine_decides_when_a_job_in_its_own_queue_starts(store):
    engines = Engines.from_engine(queue_engine(enqueued_max=1))
    desk = Desk(store, engines=engines)
    forecast = start(desk, gpu_job(4))
    assert (forecast.now, forecast.refused, forecast.reason) == (
        False, False, Reason.ENGINE_QUEUE,
    )  # fmt: skip
    assert forecast.change is None
    limited = Desk(store, engines=engines, quotas=(QuotaRule(accelerator=T4, limit=2),))
    assert start(limited, gpu_job(4)).reason is Reason.QUOTA


def test_the_engine_of_a_region_or_a_label_is_the_one_that_counts(store):
    here = FakeEngine([])
    here.traits = Traits(reach=NodeLocation.ANY, python="python3")
    engines = Engines(
        {
            "here": ServedEngine(engine=here),
            "cluster": ServedEngine(engine=queue_engine(), regions=("europe-west4",)),
        }
    )
    store.see_nodes("here", [node(gpus=2, engine="here")])
    desk = Desk(store, engines=engines)
    assert start(desk, gpu_job(2)).now
    assert start(desk, gpu_job(4)).reason is Reason.NO_SUCH_NODE
    text = yaml.safe_dump({**custom_job(gpu_pool(2)), "labels": {"trainshed-engine": "cluster"}})
    assert start(desk, text, "europe-west4").reason is Reason.ENGINE_QUEUE
    desk.texts.submit(PROJECT, gpu_job(2), PLACE, creator="ann")
    assert start(desk, gpu_job(1)).reason is Reason.CAPACITY, "the queue counts on its engine"


REFUSED_CHANGES = (
    Change("running_max", "200000s", "86090s", "would be accepted with 86090s", ""),
    Change("machine_type", "32 vCPUs", "16 vCPUs", "would be accepted with 16 vCPUs", "primary"),
)


@pytest.mark.parametrize("make", [gpu_job, gpu_ml])
@pytest.mark.parametrize("change", REFUSED_CHANGES, ids=lambda change: change.field)
def test_a_job_that_its_engine_refuses_is_checked_with_the_change(store, make, change):
    engine = queue_engine()
    refusal = Explanation(reason=Reason.NO_SUCH_NODE, message="too long", change=change)
    engine.judge = lambda needs: refusal if needs.running_s_max == 200_000 else None
    desk = Desk(store, engines=Engines.from_engine(engine))
    time = {"maxRunningTime": "200000s"} if make is gpu_ml else {"timeout": "200000s"}
    text = make(2, scheduling=time)
    forecast = start(desk, text)
    assert (forecast.refused, forecast.message) == (True, "too long")
    assert forecast.change.sentence == change.text
    if change.field == "running_max":
        assert "86090s" in apply(text, forecast.change.edit)
        assert not start(desk, apply(text, forecast.change.edit)).refused
    else:
        assert forecast.change.edit is None, "no value of the document is the size of a machine"


# a stored job as a text


def read(text):
    [document] = read_documents(text, "text")
    return document.content


def test_a_stored_job_is_a_text_that_can_be_submitted_again(desk):
    labels = {"team": "vision"}
    jobs = [
        desk.ml({**ml_job("census"), "labels": labels}),
        desk.custom({**custom_job(), "labels": labels}),
    ]
    kinds = [ListedKind.AI_PLATFORM_JOB, ListedKind.CUSTOM_JOB]
    for record, kind in zip(jobs, kinds, strict=True):
        document = desk.texts.document(PROJECT, record.job.job_id)
        assert document.kind is kind
        assert document.document["labels"] == labels
        assert document.changed_text is None
        again = desk.texts.submit(PROJECT, document.text, document.location, creator="bob")
        assert again.job != record.job.job_id
        copy = desk.texts.document(PROJECT, again.job).document
        assert {**copy, "jobId": ""} == {**document.document, "jobId": ""}
    assert read(desk.texts.document(PROJECT, "census").text)["jobId"] == "census_3"


def test_a_pipeline_and_a_study_are_texts_too(desk):
    study = {
        "displayName": "study",
        "maxTrialCount": 2,
        "parallelTrialCount": 1,
        "studySpec": {
            "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}}
            ],
        },
        "trialJobSpec": {"workerPoolSpecs": [pool()]},
    }
    pipeline = {
        "displayName": "line",
        "trainingTaskDefinition": "gs://google-cloud-aiplatform/schema/trainingjob/definition/"
        "custom_task_1.0.0.yaml",
        "trainingTaskInputs": {"workerPoolSpecs": [pool()]},
    }
    for content, kind in [(study, ListedKind.TUNING_JOB), (pipeline, ListedKind.TRAINING_PIPELINE)]:
        text = yaml.safe_dump(content)
        assert desk.texts.check(PROJECT, text, PLACE).valid
        stored = desk.texts.submit(PROJECT, text, PLACE, creator="ann")
        document = desk.texts.document(PROJECT, stored.job)
        assert document.kind is kind
        assert read(document.text) == document.document
        assert document.document["displayName"] == content["displayName"]
        desk.texts.submit(PROJECT, document.text, document.location, creator="ann")


@pytest.mark.parametrize("make", [gpu_job, gpu_ml])
def test_a_waiting_job_is_a_text_with_the_change_that_would_start_it(desk, make):
    desk.store.see_nodes("local", [node(gpus=3)])
    run(desk, gpu_job(2))
    stored = desk.texts.submit(PROJECT, make(2), PLACE, creator="ann")
    [waiting] = desk.store.waiting(limit=10)
    explain(desk, waiting)
    document = desk.texts.document(PROJECT, stored.job)
    assert document.change_sentence == f"would start now with 1 instead of 2 {T4}"
    assert start(desk, document.changed_text, document.location).now
    [row] = document.cluster
    assert (row.role, row.accelerator_type, row.accelerator_count) == (Role.PRIMARY, T4, 2)
    assert document.changed_text != document.text


def test_copies_are_numbered():
    assert [next_id(name) for name in ("census", "census_2", "v9", "a_b", "x" * 128)] == [
        "census_2", "census_3", "v_10", "a_b_2", "x" * 126 + "_2",
    ]  # fmt: skip
