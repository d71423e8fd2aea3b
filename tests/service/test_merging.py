import copy

import pytest

from trainshed.model.faults import UsageFault
from trainshed.service.jobs.merging import merge, merge_any
from trainshed.service.jobs.submit_flags import FLAGS, MACHINE_FLAGS

FILE = {
    "trainingInput": {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-8",
        "masterConfig": {
            "imageUri": "img",
            "acceleratorConfig": {"count": 4, "type": "NVIDIA_TESLA_K80"},
        },
        "workerConfig": {"acceleratorConfig": {"count": 2, "type": "NVIDIA_TESLA_P4"}},
    }
}
T4 = {"count": 1, "type": "NVIDIA_TESLA_T4"}


def test_a_flag_wins_over_its_field_and_leaves_the_neighbours_alone():
    content = merge(FILE, {"master-accelerator": "count=1,type=nvidia-tesla-t4"}).content
    got = content["trainingInput"]
    assert got["masterConfig"] == {"imageUri": "img", "acceleratorConfig": T4}
    assert got["workerConfig"] == FILE["trainingInput"]["workerConfig"]
    assert got["scaleTier"] == "CUSTOM"


def test_merging_leaves_the_file_itself_alone():
    before = copy.deepcopy(FILE)
    merge(FILE, {"master-accelerator": "count=1,type=nvidia-tesla-t4", "region": "us-east1"})
    assert before == FILE


def test_flags_in_a_file_apply_and_the_command_line_wins_over_them():
    content = {**FILE, "flags": {"worker-count": 3, "--region": "us-east1"}}
    assert merge(content, {}).content["trainingInput"]["workerCount"] == 3
    content = merge(content, {"worker-count": "5"}).content
    assert content["trainingInput"]["workerCount"] == 5
    assert content["trainingInput"]["region"] == "us-east1"
    assert "flags" not in content


def test_a_field_that_a_flag_set_is_called_by_the_flag():
    merged = merge(FILE, {"worker-accelerator": "count=1,type=nvidia-tesla-t4"})
    path = "trainingInput.workerConfig.acceleratorConfig"
    assert merged.words(f"{path}.count") == "--worker-accelerator"
    assert merged.words(path) == "--worker-accelerator"
    assert merged.words("trainingInput.workerConfigX") == "trainingInput.workerConfigX"
    assert merged.words("trainingInput.masterType") == "trainingInput.masterType"


def test_a_job_without_a_file_calls_every_field_by_its_flag():
    merged = merge({"trainingInput": {}}, {"scale-tier": "custom"}, has_file=False)
    assert merged.words("trainingInput.masterType") == "--master-machine-type"


def test_a_file_in_snake_case_gets_no_second_spelling_of_a_field():
    content = {"training_input": {"master_type": "standard"}}
    content = merge(content, {"master-machine-type": "n1-standard-4", "worker-count": "2"}).content
    assert content == {"training_input": {"master_type": "n1-standard-4", "workerCount": 2}}


def test_remote_packages_come_first_as_with_gcloud():
    content = merge(FILE, {"packages": "a.whl,gs://bucket/r.whl,b.tar.gz"}).content
    assert content["trainingInput"]["packageUris"] == ["gs://bucket/r.whl", "a.whl", "b.tar.gz"]


def test_scale_tiers_and_booleans_have_gclouds_spellings():
    content = merge(FILE, {"scale-tier": "standard-1", "use-chief-in-tf-config": "true"}).content
    assert content["trainingInput"]["scaleTier"] == "STANDARD_1"
    assert content["trainingInput"]["useChiefInTfConfig"] is True


def test_labels_stand_beside_the_training_input():
    assert merge(FILE, {"labels": "team=a,env=prod"}).content["labels"] == {
        "team": "a",
        "env": "prod",
    }


def test_an_unknown_flag_in_a_file_suggests_the_nearest():
    with pytest.raises(UsageFault, match="no flag --worker-cout; did you mean --worker-count"):
        merge({**FILE, "flags": {"worker-cout": 3}}, {})
    with pytest.raises(UsageFault, match="flags must be a mapping"):
        merge({**FILE, "flags": ["worker-count"]}, {})


def test_only_the_region_can_be_a_flag_of_a_vertex_job():
    vertex = {"workerPoolSpecs": [], "flags": {"region": "us-east1"}}
    assert merge_any(vertex, {}, source="job.yaml").content == {"workerPoolSpecs": []}
    with pytest.raises(UsageFault, match="--worker-count is a flag of AI Platform jobs"):
        merge_any(vertex, {"worker-count": "2"}, source="job.yaml")


def test_every_role_has_all_flags_and_the_machine_flags_are_those_of_machines():
    for role in ("master", "worker", "parameter-server", "evaluator"):
        assert {f"{role}-machine-type", f"{role}-accelerator", f"{role}-image-uri"} <= MACHINE_FLAGS
    assert "worker-count" not in MACHINE_FLAGS
    paths = [flag.path for flag in FLAGS.values()]
    assert len(set(paths)) == len(paths)
