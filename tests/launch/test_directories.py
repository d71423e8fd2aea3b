"""Identity, trial and output directories (docs/sources/vertex.md 10)."""

from dataclasses import replace

import pytest

from launch.builders import STUDY, TRIAL, ml_spec, plan_of, replica_of, vertex_spec
from trainshed.launch import directories
from trainshed.model.roles import Dialect, Role


def dirs(spec, **changes):
    env = plan_of(spec, **changes).primary.env
    return [env.get(name) for name in directories.FOLDER]


@pytest.mark.parametrize("base", ["gs://b/out", "gs://b/out/", "gs://b/out//"])
def test_one_slash_between_and_one_at_the_end(base):
    assert dirs(replace(vertex_spec(), base_output_dir=base)) == [
        "gs://b/out/model/",
        "gs://b/out/checkpoints/",
        "gs://b/out/logs/",
    ]


def test_each_trial_has_directories_of_its_own():
    assert dirs(vertex_spec(study=STUDY), trial=TRIAL)[0] == "gs://bkt/out/digits/3/model/"


def test_without_a_base_there_are_no_directories():
    assert dirs(replace(vertex_spec(), base_output_dir=None)) == [None, None, None]


def test_the_base_is_mapped_and_still_ends_in_a_slash():
    paths = dirs(vertex_spec(), map_uri=lambda uri: uri.replace("gs://", "/data/"))
    assert paths[1] == "/data/bkt/out/digits/checkpoints/"


def test_the_project_is_a_number_on_vertex_and_an_id_in_ml_v1():
    assert plan_of(vertex_spec()).primary.env["CLOUD_ML_PROJECT_ID"] == "1234567890"
    assert plan_of(ml_spec()).primary.env["CLOUD_ML_PROJECT_ID"] == "demo-proj"


def test_a_job_without_a_region_has_no_region_variable():
    assert plan_of(vertex_spec()).primary.env["CLOUD_ML_REGION"] == "us-central1"
    assert "CLOUD_ML_REGION" not in plan_of(replace(ml_spec(), region=None)).primary.env


def test_a_trial_is_told_its_number_its_file_and_its_metric():
    spec = vertex_spec(study=STUDY)
    env = plan_of(spec, trial=TRIAL, metric_file="/run/m").primary.env
    variables = {name: value for name, value in env.items() if name.startswith("CLOUD_ML_")}
    assert variables["CLOUD_ML_TRIAL_ID"] == "3"
    assert variables["CLOUD_ML_HP_METRIC_FILE"] == "/run/m"
    assert variables["CLOUD_ML_HP_METRIC_TAG"] == "accuracy"


def test_no_two_replicas_of_a_trial_write_the_same_metric_file():
    spec = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 2}, study=STUDY)
    plan = plan_of(spec, trial=TRIAL, metric_file="/run/m")
    files = [replica.env["CLOUD_ML_HP_METRIC_FILE"] for replica in plan.replicas]
    assert files == ["/run/m", "/run/m.workerpool1-0", "/run/m.workerpool1-1"]


def test_outside_tuning_there_are_no_trial_variables():
    env = replica_of(plan_of(vertex_spec(), metric_file="/run/m"), Role.PRIMARY).env
    assert not [name for name in env if "TRIAL" in name or "_HP_" in name]


def test_a_trial_of_a_job_without_a_study_or_file_has_its_number_only():
    env = plan_of(ml_spec(), trial=TRIAL).primary.env
    assert [name for name in env if "TRIAL" in name or "_HP_" in name] == ["CLOUD_ML_TRIAL_ID"]


def test_the_table_is_total():
    assert set(directories.PROJECT) == set(Dialect)
