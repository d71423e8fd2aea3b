"""The caller's own document, as the program sees it."""

import json
from dataclasses import replace

from launch.builders import container, json_of, ml_spec, plan_of, vertex_spec
from trainshed.launch.job_document import FORM, job_document, snake_case, snake_keys
from trainshed.model.roles import Dialect


def test_vertex_shows_the_custom_job_spec_as_it_was_sent():
    spec = vertex_spec()
    assert json_of(plan_of(spec).primary, "CLUSTER_SPEC")["job"] == json.loads(spec.request)


def test_ml_v1_shows_the_training_input_in_snake_case():
    assert job_document(ml_spec()) == {
        "scale_tier": "CUSTOM",
        "master_type": "n1-standard-8",
        "package_uris": ["gs://bkt/pkg/trainer-0.1.tar.gz"],
        "python_module": "trainer.task",
        "args": ["--epochs", "3", "--lr=0.1", "pos"],
        "region": "us-west1",
        "runtime_version": "2.11",
        "job_dir": "gs://bkt/out/digits",
        "run_on_raw_vm": True,
    }


def test_ml_v1_gives_the_same_document_in_all_three_places():
    env = plan_of(ml_spec(program=container())).primary.env
    job = json.loads(env["CLOUD_ML_JOB"])
    assert json.loads(env["TF_CONFIG"])["job"] == job
    assert json.loads(env["CLUSTER_SPEC"])["job"] == job


def test_vertex_has_no_cloud_ml_job():
    assert "CLOUD_ML_JOB" not in plan_of(vertex_spec()).primary.env


def test_nested_keys_are_renamed_and_label_keys_are_not():
    document = {
        "workerConfig": {"acceleratorConfig": {"count": "4"}, "diskConfig": {"bootDiskSizeGb": 9}},
        "hyperparameters": {"params": [{"parameterName": "learningRate"}]},
        "labels": {"teamName": "a"},
    }
    assert snake_keys(document) == {
        "worker_config": {
            "accelerator_config": {"count": "4"},
            "disk_config": {"boot_disk_size_gb": 9},
        },
        "hyperparameters": {"params": [{"parameter_name": "learningRate"}]},
        "labels": {"teamName": "a"},
    }


def test_snake_case_stays_snake_case():
    assert snake_case("use_chief_in_tf_config") == "use_chief_in_tf_config"
    assert snake_case(snake_case("useChiefInTfConfig")) == "use_chief_in_tf_config"


def test_a_request_without_training_input_has_an_empty_document():
    assert job_document(replace(ml_spec(), request="{}")) == {"run_on_raw_vm": True}


def test_the_table_is_total():
    assert set(FORM) == set(Dialect)
