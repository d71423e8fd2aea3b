"""A job names its project's buckets; another's, and nobody's, are told like none at all."""

import pytest

from service.submitting import (
    DOCKER,
    MAPPED,
    Desk,
    custom_job,
    fields,
    images,
    ml_job,
    pool,
    refusal,
)
from service.test_launching import launching
from trainshed.model.faults import EngineFault
from trainshed.model.refusals import Code
from trainshed.store.records.jobs import JobKind

OWN, FOREIGN, NOBODYS = "stage", "yours", "nowhere"
POOL = "jobSpec.workerPoolSpecs[0]"


def with_words(**words):
    """A Vertex pool whose container has these words beside its command."""
    worker_pool = pool()
    worker_pool["containerSpec"] |= words
    return worker_pool


def packages(uri):
    spec = {"executorImageUri": "REG/x", "packageUris": [uri], "pythonModule": "t.task"}
    machine = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
    return {"pythonPackageSpec": spec, **machine}


def study(job):
    """The same job as the trials of a study."""
    metric = {"metricId": "x", "goal": "MAXIMIZE"}
    parameter = {"parameterId": "p", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}
    return {
        "displayName": "s",
        "studySpec": {"metrics": [metric], "parameters": [parameter]},
        "maxTrialCount": 1,
        "parallelTrialCount": 1,
        "trialJobSpec": job["jobSpec"],
    }


def ml_study(job):
    parameter = {"parameterName": "p", "type": "DOUBLE", "minValue": 0, "maxValue": 1}
    job["trainingInput"]["hyperparameters"] = {
        "goal": "MAXIMIZE", "maxTrials": 1, "maxParallelTrials": 1, "params": [parameter],
    }  # fmt: skip
    return job


def own_image(**words):
    config = {"imageUri": "REG/x", "containerCommand": ["python"], **words}
    return {
        "jobId": "job_1",
        "trainingInput": {
            "region": "us-central1", "scaleTier": "CUSTOM", "masterType": "n1-standard-4",
            "masterConfig": config,
        },
    }  # fmt: skip


#: What names a bucket, by dialect, and the caller's own words for the field.
ML = [
    (lambda b: ml_job(jobDir=f"gs://{b}/out"), "trainingInput.jobDir"),
    (lambda b: ml_study(ml_job(jobDir=f"gs://{b}/out")), "trainingInput.jobDir"),
    (lambda b: ml_job(packageUris=[f"gs://{b}/p.tar.gz"]), "trainingInput.packageUris"),
    (lambda b: ml_job(args=[f"--data=/gcs/{b}/x"]), "trainingInput.args"),
    (lambda b: own_image(containerCommand=[f"/gcs/{b}/run"]),
     "trainingInput.masterConfig.containerCommand"),
    (lambda b: own_image(containerArgs=[f"/gcs/{b}"]), "trainingInput.masterConfig.containerArgs"),
]  # fmt: skip
VERTEX = [
    (lambda b: custom_job(baseOutputDirectory={"outputUriPrefix": f"gs://{b}/out"}),
     "jobSpec.baseOutputDirectory.outputUriPrefix"),
    (lambda b: custom_job(packages(f"gs://{b}/p.tar.gz")),
     f"{POOL}.pythonPackageSpec.packageUris"),
    (lambda b: custom_job(pool([f"/gcs/{b}/run"])), f"{POOL}.containerSpec.command"),
    (lambda b: custom_job(with_words(args=["--data", f"/gcs/{b}/x"])),
     f"{POOL}.containerSpec.args"),
    (lambda b: custom_job(with_words(env=[{"name": "DATA", "value": f"/gcs/{b}"}])),
     f"{POOL}.containerSpec.env"),
]  # fmt: skip
CASES = [
    *((JobKind.ML_JOB, make, field) for make, field in ML),
    *((JobKind.CUSTOM_JOB, make, field) for make, field in VERTEX),
    (JobKind.TUNING_JOB, lambda b: study(VERTEX[0][0](b)),
     f"trialJobSpec.{VERTEX[0][1].removeprefix('jobSpec.')}"),
]  # fmt: skip


@pytest.fixture
def owners(desk, tmp_path):
    """Three buckets of which only one is the project's, and their folders."""
    desk.store.add_bucket(FOREIGN, "other")
    for name in (OWN, FOREIGN, "by-hand"):
        (tmp_path / "buckets" / name).mkdir(parents=True)
    return desk


def create(desk, kind, document):
    return desk.jobs.create(kind, "demo", "us-central1", document, creator="ann")


@pytest.mark.parametrize(("kind", "make", "field"), CASES)
def test_a_foreign_bucket_is_refused_like_one_that_is_not_there(owners, kind, make, field):
    messages = []
    for bucket in (FOREIGN, NOBODYS, "by-hand"):
        error = refusal(create, owners, kind, make(bucket))
        assert (error.code, fields(error)) == (Code.INVALID_ARGUMENT, [field])
        assert bucket in error.message
        messages.append(error.message.replace(bucket, "BUCKET"))
    assert len(set(messages)) == 1
    assert not owners.store.waiting_count()
    assert owners.store.bucket(NOBODYS) is None  # nothing is made, and nothing is taken
    create(owners, kind, make(OWN))


def test_a_pipeline_is_judged_like_its_child(owners):
    messages = []
    for bucket in (FOREIGN, NOBODYS):
        inputs = custom_job()["jobSpec"] | {
            "baseOutputDirectory": {"outputUriPrefix": f"gs://{bucket}"}
        }
        document = {
            "displayName": "p",
            "trainingTaskDefinition": "gs://google-cloud-aiplatform/schema/trainingjob/definition/"
            "custom_task_1.0.0.yaml",
            "trainingTaskInputs": inputs,
        }
        error = refusal(owners.pipelines.create, "demo", "us-central1", document, creator="ann")
        assert fields(error) == ["trainingTaskInputs.baseOutputDirectory.outputUriPrefix"]
        messages.append(error.message.replace(bucket, "BUCKET"))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("place", ["/etc", "/srv/x", "../out", "a/../../b", "~/out", "~root"])
def test_a_path_of_the_server_s_machine_is_no_place_for_results(desk, place):
    base = {"baseOutputDirectory": {"outputUriPrefix": place}}
    for call, document in ((desk.ml, ml_job(jobDir=place)), (desk.custom, custom_job(**base))):
        error = refusal(call, document)
        assert error.code is Code.INVALID_ARGUMENT
        assert "paths of the server's machine" in error.message
        assert "gs://BUCKET/PATH" in error.message
    desk.ml(ml_job(jobDir="out"))  # below the folder in which the job starts


@pytest.mark.parametrize("image", ["REG/p/img:1", "registry.example/me/own:1"])
def test_text_that_only_mentions_a_mount_path_is_left_as_it_is(store, tmp_path, image):
    table = images(*MAPPED, containers=DOCKER)
    desk, launch = Desk(store, table), launching(store, tmp_path, table)
    store.add_bucket(FOREIGN, "other")
    (tmp_path / "buckets" / FOREIGN).mkdir(parents=True)
    script = f"ls /gcs/{FOREIGN} '/gcs/{FOREIGN}/x' --to=/gcs/{FOREIGN};/gcs/{FOREIGN}/y"
    plan = launch(desk.custom(custom_job(pool(["sh", "-c", script], image))), 1, [])
    assert plan.primary.argv[-1] == script
    assert plan.binds == ()


@pytest.mark.parametrize(
    "climbing",
    ["/gcs/stage/../yours/x", "/gcs/stage/a/../../yours", "/gcs/stage/..", "/gcs/stage//../yours",
     "--data=/gcs/stage/a/b/../../../yours/x", "cat '/gcs/stage/../yours/x'",
     "/gcs/stage/a b/../../yours", 'ls "/gcs/stage/a b/../../yours"',
     "ls /gcs/stage/a\\ b/../../yours", "/gcs/stage/..:/elsewhere"],
)  # fmt: skip
def test_no_path_climbs_from_an_own_bucket_into_its_neighbour(store, tmp_path, climbing):
    desk, launch = Desk(store), launching(store, tmp_path, images(*MAPPED))
    plain = "cat /gcs/stage/..x /gcs/stage/a..b /gcs/stage"
    record = desk.custom(custom_job(pool(["sh", "-c", climbing, plain])))
    *_, climbed, mapped = launch(record, 1, []).primary.argv
    assert climbed == climbing
    assert mapped == plain.replace("/gcs/", f"{tmp_path}/buckets/")


@pytest.mark.parametrize("owner", ["other", None])
def test_a_job_that_was_stored_with_a_foreign_bucket_is_not_launched(
    store, tmp_path, monkeypatch, owner
):
    """An older server stored jobs whose packages lay in buckets that nobody owned."""
    desk, launch = Desk(store), launching(store, tmp_path, images(*MAPPED))
    record = desk.ml(ml_job(packageUris=[f"gs://{OWN}/p.tar.gz"]))
    monkeypatch.setattr(store, "bucket", lambda _: owner and (owner, None))
    with pytest.raises(EngineFault, match=f"the project has no bucket {OWN}$"):
        launch(record, 1, [])
