"""Every kind of job has a name, and the store, the story and the API agree on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.builders import PROJECT, add
from trainshed.controller.steps import DIALECT_OF_KIND
from trainshed.model.resource_names import ResourceName, resource_name
from trainshed.model.roles import Dialect
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import ML_KINDS, JobKind

NAMES = {
    JobKind.ML_JOB: "projects/census/jobs/j",
    JobKind.TRIAL: "projects/census/jobs/tune/trials/1",
    JobKind.CUSTOM_JOB: "projects/census/locations/us-central1/customJobs/7",
    JobKind.TUNING_JOB: "projects/census/locations/us-central1/hyperparameterTuningJobs/7",
}
IDS = {JobKind.ML_JOB: "j", JobKind.TRIAL: "tune/trials/1"}


@pytest.mark.parametrize("kind", JobKind)
def test_every_kind_has_a_name(kind, tmp_path):
    job_id = IDS.get(kind, "7")
    assert resource_name(kind.value, PROJECT, "us-central1", job_id) == NAMES[kind]
    store = open_store(f"sqlite:///{tmp_path}/x.db")
    assert add(store, kind=kind, job_id=job_id).name == NAMES[kind]
    assert [job.name for job in store.waiting(limit=9)] == [NAMES[kind]]
    store.close()


@pytest.mark.parametrize("kind", JobKind)
def test_names_without_a_place_are_those_of_ml_v1(kind):
    assert (DIALECT_OF_KIND[kind] is Dialect.ML_V1) is (kind in ML_KINDS)
    assert ("/locations/" in NAMES[kind]) is (kind not in ML_KINDS)


PARTS = st.text("abcxyz019-_.:", min_size=1, max_size=8)
VERTEX = st.sampled_from(["customJobs", "trainingPipelines", "operations", "models"])


@given(project=PARTS, location=PARTS, collection=VERTEX, number=PARTS)
def test_a_name_with_a_place_is_taken_apart_into_what_made_it(
    project, location, collection, number
):
    name = resource_name(collection, project, location, number)
    parsed = ResourceName.parse(name)
    parts = (parsed.project, parsed.location, parsed.collection, parsed.id)
    assert parts == (project, location, collection, number)
    assert str(parsed) == name


@given(project=PARTS, job=PARTS, trial=st.none() | PARTS)
def test_a_name_of_ml_v1_comes_apart_as_it_was_made(project, job, trial):
    job_id = f"{job}/trials/{trial}" if trial else job
    name = resource_name("trials" if trial else "jobs", project, "", job_id)
    parsed = ResourceName.parse(name)
    assert (parsed.project, parsed.location, parsed.collection, parsed.id) == (
        project,
        "",
        "jobs",
        job_id,
    )
    assert str(parsed) == name


@given(
    st.text("pj/ 1", max_size=12) | st.sampled_from(["projects//jobs/j", "projects/p/jobs/", "x"])
)
def test_what_is_no_name_is_refused(text):
    with pytest.raises(ValueError, match="is not a valid resource name"):
        ResourceName.parse(text)
