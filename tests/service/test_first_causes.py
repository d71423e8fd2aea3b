"""A refusal tells each mistake once: what only follows from one is left out."""

import datetime as dt

import pytest

from service.submitting import PLACE, PROJECT, fields, refusal
from trainshed.service.jobs.judging import Rulebook, judge
from trainshed.service.jobs.refusing import Merged
from trainshed.store.records.jobs import JobKind

BOOK = Rulebook(today=dt.date(2026, 11, 21))
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "gcr.io/p/i"},
}


def job_with(**changes):
    pool = {key: value for key, value in {**POOL, **changes}.items() if value is not None}
    return {"displayName": "d", "jobSpec": {"workerPoolSpecs": [pool]}}


def training(**fields):
    return {"jobId": "j", "trainingInput": {"region": "us-central1", **fields}}


PACKAGE = {"runtimeVersion": "2.11", "pythonModule": "trainer.task", "packageUris": ["gs://b/p"]}


@pytest.mark.parametrize(
    ("document", "fields"),
    [
        # a file that forgot to indent
        (
            {
                "trainingInput": None,
                "scaleTier": "CUSTOM",
                "masterType": "n1-standard-4",
                **PACKAGE,
            },
            ["scaleTier", "masterType", *PACKAGE],
        ),
        # misspelled keys
        (job_with(machineSpec=None, machineSpecs=POOL["machineSpec"]), ["machineSpecs"]),
        (job_with(containerSpec=None, containerSpecs=POOL["containerSpec"]), ["containerSpecs"]),
        (training(scaleTeir="CUSTOM", masterType="n1-standard-4"), ["scaleTeir"]),
        (training(scaleTier="CUSTOM", mastertype="n1-standard-4"), ["mastertype"]),
        # wrong level
        (job_with(machineSpec=None, machineType="n1-standard-4"), ["machineType"]),
        (job_with(containerSpec=None, imageUri="gcr.io/p/i"), ["imageUri"]),
        # values that cannot be read
        (job_with(machineSpec="n1-standard-4"), ["machineSpec"]),
        (job_with(machineSpec={"machineType": 4}), ["machineType"]),
        (job_with(containerSpec="gcr.io/p/i"), ["containerSpec"]),
        (job_with(containerSpec={"imageUri": 4}), ["imageUri"]),
        (
            job_with(
                containerSpec=None,
                pythonPackageSpec={
                    "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-11:latest",
                    "packageUris": list("gs://b/p"),
                    "pythonModule": False,
                },
            ),
            ["packageUris", "pythonModule"],
        ),
        (training(scaleTier="CUSTOM", masterType=4), ["masterType"]),
        (training(**{**PACKAGE, "runtimeVersion": 2.11}), ["runtimeVersion"]),
        ({"displayName": "d", "jobSpec": {"workerPoolSpecs": "none"}}, ["workerPoolSpecs"]),
        (
            job_with(
                machineSpec={
                    "machineType": "n1-standard-8",
                    "acceleratorType": "NVIDIA_TESLA_T4",
                    "acceleratorCount": "one",
                }
            ),
            ["acceleratorCount"],
        ),
    ],
)
def test_only_the_first_cause_is_told(document, fields):
    judgement = judge(Merged(content=document), BOOK)
    assert [str(v.field).rpartition(".")[2] for v in judgement.violations] == fields


def test_a_tier_that_is_missing_is_one_mistake_that_names_all_fields():
    document = training(masterType="n1-standard-4", workerType="n1-standard-4", workerCount=2)
    [violation] = judge(Merged(content=document), BOOK).violations
    assert violation.rule == "counts-need-custom"
    assert "trainingInput.workerType" in violation.message
    assert "trainingInput.workerCount" in violation.message


def test_mistakes_that_do_not_follow_from_each_other_are_all_told():
    document = job_with(
        machineSpec={"machineType": "n1-standart-4"}, containerSpec=None, imageUri="gcr.io/p/i"
    )
    rules = [v.rule for v in judge(Merged(content=document), BOOK).violations]
    assert rules == ["unknown-field", "unknown-machine-type"]


def test_a_name_in_lower_case_is_noted_with_its_field():
    document = training(
        scaleTier="custom",
        masterType="n1-standard-8",
        masterConfig={"acceleratorConfig": {"type": "nvidia_tesla_t4", "count": 1}},
    )
    judgement = judge(Merged(content=document), BOOK)
    kind = "trainingInput.masterConfig.acceleratorConfig.type"
    assert judgement.violations == ()
    assert judgement.notes[:2] == (
        "trainingInput.scaleTier: 'custom' was read as CUSTOM.",
        f"{kind}: 'nvidia_tesla_t4' was read as NVIDIA_TESLA_T4.",
    )


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (job_with(containerSpec="gcr.io/p/i"), "jobSpec.workerPoolSpecs[0].containerSpec"),
        (
            job_with(containerSpec={"imageUri": "gcr.io/p/i", "command": list("python")}),
            "jobSpec.workerPoolSpecs[0].containerSpec.command",
        ),
    ],
)
def test_a_call_is_refused_with_the_first_cause_alone(desk, document, field):
    error = refusal(desk.jobs.create, JobKind.CUSTOM_JOB, PROJECT, PLACE, document, creator="ann")
    assert fields(error) == [field]


def test_a_call_in_lower_case_is_stored_in_the_enums_own_names_with_a_note(desk):
    document = training(**PACKAGE, scaleTier="basic_gpu")
    record = desk.jobs.create(JobKind.ML_JOB, PROJECT, "", document, creator="ann")
    assert '"scaleTier":"BASIC_GPU"' in record.job.spec.request
