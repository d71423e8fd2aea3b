"""The launch plan of a job that is not created: as that of a start, and nothing is left."""

import json
from dataclasses import replace

import pytest

from service.submitting import PLACE, PROJECT, Desk, custom_job, images, ml_job, pool, refusal
from trainshed.config import ImageMapping, LocalEnvironment
from trainshed.engines.base import PlacedBy
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.several import Engines
from trainshed.model.refusals import Code
from trainshed.model.resources import FleetPolicy, Node
from trainshed.service.jobs.dry_runs import DryRuns
from trainshed.service.jobs.job_service import CreateCall
from trainshed.service.jobs.manifests import BLOT
from trainshed.service.starts.interpreters import LIBRARY
from trainshed.service.starts.launching import Launching
from trainshed.storage.buckets import Buckets
from trainshed.store.records.jobs import JobKind

BARE = LocalEnvironment(name="bare", python="/nowhere/bin/python3")
START = ("python", "-c", "pass")
TABLE = (ImageMapping(environment="bare", image="*", entrypoint=START),)
REDUCTION_SERVER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
T4 = {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}


@pytest.fixture
def engine(tmp_path):
    return LocalEngine(tmp_path / "jobs")


@pytest.fixture
def launching(store, engine, tmp_path):
    return Launching(
        store,
        Engines.from_engine(engine),
        images=images(*TABLE, environments=(BARE,)),
        buckets=Buckets(root=tmp_path / "buckets"),
        library=tmp_path / LIBRARY,
    )


@pytest.fixture
def desk(store):
    return Desk(store, images(*TABLE, environments=(BARE,)))


@pytest.fixture
def dry_run(desk, engine, launching):
    runs = DryRuns(jobs=desk.jobs, engines=Engines.from_engine(engine), preview=launching.preview)

    def dry_run(document, kind=JobKind.CUSTOM_JOB, location=PLACE):
        return runs.manifest(CreateCall(kind, PROJECT, location, document))

    return dry_run


def plan_in(manifest):
    [part] = manifest.parts
    assert part.name == "plan.json"
    return json.loads(part.text)


def test_the_plan_is_that_of_a_start_but_for_numbers_and_notes(dry_run, desk, launching, engine):
    document = custom_job(pool(**T4), pool(**T4), pool(image=REDUCTION_SERVER, count=2))
    plan = plan_in(dry_run(document))
    record = desk.custom(document)
    started = launching(record, 1, [])
    [text] = engine.manifest(None, started, []).values()
    expected = json.loads(text)
    assert [r["argv"] for r in plan["replicas"]] == [r["argv"] for r in expected["replicas"]]
    assert [sorted(r["env"]) for r in plan["replicas"]] == [
        sorted(r["env"]) for r in expected["replicas"]
    ]
    assert plan["owner"] == expected["owner"]
    assert any(note.startswith("This is a dry run:") for note in plan["notes"])


def test_nothing_is_stored_made_or_woken(dry_run, desk, store, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    base = {"baseOutputDirectory": {"outputUriPrefix": "gs://out/a"}}
    manifest = dry_run(custom_job(pool(**T4), pool(**T4), pool(image=REDUCTION_SERVER), **base))
    assert manifest.attempt == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert store.open_count(PROJECT) == 0
    assert desk.woken == 0
    assert store.next_owner_number("demo") == store.next_owner_number("another") == 0


def test_the_seats_are_those_of_the_empty_fleet(dry_run, store, monkeypatch):
    node = Node(
        name="here",
        engine="local",
        vcpus=64,
        memory_gb=256,
        gpus={"NVIDIA_TESLA_T4": 4},
        gpus_held={"NVIDIA_TESLA_T4": 4},
        policy=FleetPolicy.EMULATE,
    )
    monkeypatch.setattr(store, "fleet", lambda: [node])
    plan = plan_in(dry_run(custom_job(pool(**T4))))
    assert plan["replicas"][0].get("gpu_count", 0) == 0
    assert "emulates accelerators" in json.dumps(plan["warnings"])


def test_variables_that_are_named_like_secrets_are_masked(dry_run):
    worker_pool = pool()
    worker_pool["containerSpec"]["env"] = [{"name": "HF_TOKEN", "value": "s3cr3t"}]
    manifest = dry_run(custom_job(worker_pool))
    assert plan_in(manifest)["replicas"][0]["env"]["HF_TOKEN"] == BLOT
    assert "s3cr3t" not in repr(manifest)


def test_a_job_is_refused_as_its_creation_is(dry_run, desk):
    for document in (custom_job(pool(machineType="n1-nothing")), custom_job(name=""), []):
        created, checked = refusal(desk.custom, document), refusal(dry_run, document)
        assert (checked.code, checked.violations) == (created.code, created.violations)
        assert str(checked) == str(created)


def test_a_location_is_for_vertex_jobs_alone(dry_run):
    vertex = refusal(dry_run, custom_job(), location="")
    assert str(vertex) == "location must be the region of a Vertex job, got ''"
    ml = refusal(dry_run, ml_job(), JobKind.ML_JOB, PLACE)
    assert str(ml).startswith("location must be left out for AI Platform jobs, got")


def test_limits_of_the_project_apply(store, engine, launching):
    desk = Desk(store, images(*TABLE, environments=(BARE,)), project_jobs_max=1)
    runs = DryRuns(jobs=desk.jobs, engines=Engines.from_engine(engine), preview=launching.preview)
    desk.custom(custom_job())
    refused = refusal(runs.manifest, CreateCall(JobKind.CUSTOM_JOB, PROJECT, PLACE, custom_job()))
    assert refused.code is Code.RESOURCE_EXHAUSTED


def test_an_id_that_is_taken_and_a_missing_package(dry_run, desk):
    document = ml_job(packageUris=["gs://stage/none.whl"])
    refused = refusal(dry_run, document, JobKind.ML_JOB, "")
    assert refused.code is Code.FAILED_PRECONDITION
    assert "the package gs://stage/none.whl does not exist" in str(refused)
    assert dry_run(ml_job(), JobKind.ML_JOB, "").job == "projects/demo/jobs/job_1"
    desk.ml(ml_job())
    assert refusal(dry_run, ml_job(), JobKind.ML_JOB, "").code is Code.ALREADY_EXISTS


def test_a_tuning_job_has_the_plan_of_one_trial(dry_run):
    study = {
        "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
        "parameters": [
            {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}}
        ],
    }
    trial = custom_job()["jobSpec"]
    document = {"displayName": "tuned", "studySpec": study, "trialJobSpec": trial}
    document |= {"maxTrialCount": 2, "parallelTrialCount": 1}
    plan = plan_in(dry_run(document, JobKind.TUNING_JOB))
    assert any(note.startswith("This is the plan of one trial") for note in plan["notes"])
    assert len(plan["replicas"]) == 1


def test_an_engine_with_a_queue_of_its_own_renders_the_plan(store, launching, engine, monkeypatch):
    """Such an engine gets a claim, as at a start."""
    claims = []
    engines = Engines.from_engine(engine)
    monkeypatch.setattr(engine, "traits", replace(engine.traits, places=PlacedBy.ENGINE))
    monkeypatch.setattr(
        type(engine), "manifest", lambda _self, _key, _plan, place: claims.append(place) or {}
    )
    desk = Desk(store, images(*TABLE, environments=(BARE,)), engines=engines)
    runs = DryRuns(jobs=desk.jobs, engines=engines, preview=launching.preview)
    manifest = runs.manifest(CreateCall(JobKind.CUSTOM_JOB, PROJECT, PLACE, custom_job()))
    [claim] = claims
    assert (claim.engine, claim.project) == (manifest.engine, PROJECT)
    assert claim.demand.engine == manifest.engine
