"""Every kind of job has a name, and the store, the story and the API agree on it."""

import pytest

from trainshed.controller.steps import DIALECT_OF_KIND
from trainshed.model.roles import Dialect
from trainshed.service.resource_names import job_name
from trainshed.service.story import resource_name
from trainshed.store.opening import open_store
from trainshed.store.records import ML_KINDS, Kind
from trainshed.testing.store_builders import PROJECT, add

NAMES = {
    Kind.ML_JOB: "projects/census/jobs/j",
    Kind.TRIAL: "projects/census/jobs/tune/trials/1",
    Kind.CUSTOM_JOB: "projects/census/locations/us-central1/customJobs/7",
    Kind.TUNING_JOB: "projects/census/locations/us-central1/hyperparameterTuningJobs/7",
}
IDS = {Kind.ML_JOB: "j", Kind.TRIAL: "tune/trials/1"}


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_name(kind, tmp_path):
    job_id = IDS.get(kind, "7")
    assert job_name(kind, PROJECT, "us-central1", job_id) == NAMES[kind]
    store = open_store(f"sqlite:///{tmp_path}/x.db")
    assert resource_name(add(store, kind=kind, job_id=job_id)) == NAMES[kind]
    assert [job.name for job in store.waiting(limit=9)] == [NAMES[kind]]
    store.close()


@pytest.mark.parametrize("kind", Kind)
def test_names_without_a_place_are_those_of_ml_v1(kind):
    assert (DIALECT_OF_KIND[kind] is Dialect.ML_V1) is (kind in ML_KINDS)
    assert ("/locations/" in NAMES[kind]) is (kind not in ML_KINDS)
