"""Unmodified gcloud: all of ``gcloud ai`` but tuning jobs.

The source for jobs and operations is docs/sources/gcloud.md 5 to 8.
"""

import json
import re

import pytest
import yaml

from conformance.gcloud import needs_gcloud

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_gcloud]

SAY = 'import os; print("cluster", os.environ["CLUSTER_SPEC"], flush=True)'
#: The commas of the code are not between arguments.
WHOLE = "^|^"
#: Returns when every reducer can be reached.
REACH = """
import os, socket, time
for place in os.environ["TRAINSHED_REDUCERS"].split(","):
    host, _, port = place.rpartition(":")
    while socket.socket().connect_ex((host, int(port))):
        time.sleep(0.05)
"""
FINAL = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}
POOL = "machine-type=n1-standard-4,replica-count={},container-image-uri=registry.test/p/img:1"


def create(gcloud, name, *flags):
    """Create a custom job; its full name."""
    done = gcloud(
        "ai", "custom-jobs", "create", "--display-name", name, "--format", "value(name)", *flags
    )
    return done.ok().stdout.strip()


def described(gcloud, name):
    return yaml.safe_load(gcloud("ai", "custom-jobs", "describe", name).ok().stdout)


def test_a_container_job_runs_and_its_finished_log_is_streamed(real_gcloud, gcloud, server):
    name = create(
        real_gcloud, "one-pool", f"--worker-pool-spec={POOL.format(1)}", "--command=python,-c",
        "--args", "print('hello from the container'); import sys; print(sys.argv)",
    )  # fmt: skip
    job = server.wait_for(f"/v1/{name}", FINAL)
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    assert described(gcloud, name)["startTime"]
    streamed = (
        real_gcloud("ai", "custom-jobs", "stream-logs", name, "--polling-interval=1").ok().stdout
    )
    assert streamed.count("hello from the container") == 1
    assert "workerpool0-0" in streamed


def test_three_pools_with_a_reduction_server_run_to_the_end(gcloud, server, met):
    gpu = "machine-type=n1-highcpu-16,accelerator-type=NVIDIA_TESLA_V100,accelerator-count=8"
    image = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
    name = create(
        gcloud, "reduced",
        f"--worker-pool-spec={gpu},replica-count=1,container-image-uri=registry.test/train:1",
        f"--worker-pool-spec={gpu},replica-count=2,container-image-uri=registry.test/train:1",
        f"--worker-pool-spec=machine-type=n1-highcpu-16,replica-count=4,container-image-uri={image}",
        "--command=python,-c", f"--args={WHOLE}{SAY}\n{REACH}\n{met}", "--labels=a=b",
        "--enable-web-access",
    )  # fmt: skip
    job = server.wait_for(f"/v1/{name}", FINAL)
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    record = described(gcloud, name)
    assert [pool["replicaCount"] for pool in record["jobSpec"]["workerPoolSpecs"]] == [
        "1",
        "2",
        "4",
    ]
    assert record["labels"] == {"a": "b"}
    streamed = gcloud("ai", "custom-jobs", "stream-logs", name, "--polling-interval=1").ok().stdout
    for task in ("workerpool0-0", "workerpool1-0", "workerpool1-1"):
        assert f"\t{task}\tcluster " in streamed
    for index in range(4):
        assert f"\tworkerpool2-{index}\treducer {index}: listening on " in streamed


def test_an_empty_pool_is_skipped_and_echoed(gcloud, server):
    name = create(
        gcloud, "skipped", f"--worker-pool-spec={POOL.format(1)}", "--worker-pool-spec=",
        f"--worker-pool-spec={POOL.format(1)}", "--command=python,-c",
        f"--args={WHOLE}{SAY}",
    )  # fmt: skip
    job = server.wait_for(f"/v1/{name}", FINAL)
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    assert described(gcloud, name)["jobSpec"]["workerPoolSpecs"][1] == {}


def test_a_python_package_job_runs_in_a_prebuilt_image(gcloud, server, trainer):
    done = gcloud(
        "ai-platform", "jobs", "submit", "training", "stager", "--package-path", trainer,
        "--staging-bucket", "gs://stage-bkt", "--runtime-version=2.11", "--python-version=3.7",
        "--module-name=trainer.task",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    uri = server.call("GET", "/v1/projects/demo-proj/jobs/stager")[1]["trainingInput"][
        "packageUris"
    ][0]
    image = "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.1-13.py310:latest"
    name = create(
        gcloud, "package",
        "--worker-pool-spec=machine-type=n1-standard-4,replica-count=1,"
        f"executor-image-uri={image},python-module=trainer.task",
        f"--python-package-uris={uri}", "--args=x,y",
    )  # fmt: skip
    job = server.wait_for(f"/v1/{name}", FINAL)
    assert job["state"] in FINAL, job
    streamed = server.log_of(name)
    assert '["x", "y"]' in streamed
    assert "pytorch-cpu.1-13" in streamed, "the difference to the image is told"


CONFIG = {
    "baseOutputDirectory": {"outputUriPrefix": "gs://out-bkt/cj"},
    "scheduling": {"timeout": "86400s", "restartJobOnWorkerRestart": True},
    "workerPoolSpecs": [
        {
            "containerSpec": {
                "args": ["--x", "1"],
                "command": ["python", "-c", "import os; print('dir', os.environ['AIP_MODEL_DIR'])"],
                "env": [{"name": "FOO", "value": "bar"}],
                "imageUri": "registry.test/p/img:1",
            },
            "diskSpec": {"bootDiskSizeGb": 200, "bootDiskType": "pd-ssd"},
            "machineSpec": {"machineType": "n1-highcpu-16"},
            "replicaCount": "1",
        }
    ],
}


def test_a_job_from_a_config_file_runs(gcloud, server, tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(CONFIG))
    name = create(gcloud, "configured", "--config", tmp_path / "job.yaml")
    job = server.wait_for(f"/v1/{name}", FINAL)
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    spec = described(gcloud, name)["jobSpec"]
    assert spec["baseOutputDirectory"] == CONFIG["baseOutputDirectory"]
    assert spec["scheduling"] == CONFIG["scheduling"]
    streamed = server.log_of(name)
    assert "dir gs://out-bkt/cj/model/" in streamed


def test_names_with_the_project_number_and_bare_ids_both_resolve(gcloud, server):
    name = create(
        gcloud, "named", f"--worker-pool-spec={POOL.format(1)}", "--command=python,-c",
        "--args", "import os; print('number is ' + os.environ['CLOUD_ML_PROJECT_ID'])",
    )  # fmt: skip
    server.wait_for(f"/v1/{name}", FINAL)
    number = re.search(r"number is (\d+)", server.log_of(name))[1]
    numbered = name.replace("demo-proj", number)
    assert described(gcloud, name.rpartition("/")[2])["name"] == name
    assert described(gcloud, numbered)["name"] == name


def test_list_prints_every_job_and_cancel_ends_one(gcloud, server):
    name = create(
        gcloud, "long", f"--worker-pool-spec={POOL.format(1)}", "--command=python,-c",
        "--args", "import time; time.sleep(600)",
    )  # fmt: skip
    listed = gcloud("ai", "custom-jobs", "list", "--format", "value(name)").ok().stdout.split()
    assert name in listed
    server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    done = gcloud("ai", "custom-jobs", "cancel", name).ok()
    assert "has been sent" in done.stderr
    job = server.wait_for(f"/v1/{name}", {"JOB_STATE_CANCELLED"})
    assert job["error"]["code"] == 1
    gcloud("ai", "custom-jobs", "cancel", name).ok()


def test_the_beta_track_speaks_to_the_same_jobs(gcloud):
    listed = gcloud("beta", "ai", "custom-jobs", "list", "--format", "json").ok().stdout
    assert isinstance(json.loads(listed), list)


def test_a_container_without_a_mapping_is_refused_with_both_ways_out(gcloud):
    done = gcloud(
        "ai", "custom-jobs", "create", "--display-name=unmapped",
        "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=unknown.test/p/img:1",
    )  # fmt: skip
    assert done.code == 1
    assert "imageUri" in done.stderr
    assert "config" in done.stderr
    assert "container runtime" in done.stderr


def test_operations_are_described(gcloud, server):
    name = create(
        gcloud, "deleted", f"--worker-pool-spec={POOL.format(1)}", "--command=python,-c", "--args=1"
    )
    server.wait_for(f"/v1/{name}", FINAL)
    status, operation = server.call("DELETE", f"/v1/{name}")
    assert status == 200, operation
    output = (
        gcloud("ai", "operations", "describe", operation["name"].rpartition("/")[2]).ok().stdout
    )
    assert yaml.safe_load(output)["done"] is True


def test_models_are_uploaded_listed_and_deleted(gcloud):
    where = ("--region=us-central1",)
    gcloud(
        "ai", "models", "upload", *where, "--display-name=by-gcloud", "--model-id=by_gcloud",
        "--artifact-uri=gs://out-bkt/m", "--container-image-uri=registry.test/serve:1",
    ).ok()  # fmt: skip
    model = yaml.safe_load(gcloud("ai", "models", "describe", *where, "by_gcloud").ok().stdout)
    assert model["artifactUri"] == "gs://out-bkt/m"
    listed = gcloud("ai", "models", "list", *where, "--format", "value(displayName)").ok().stdout
    assert "by-gcloud" in listed
    versions = gcloud("ai", "models", "list-version", *where, "by_gcloud").ok().stdout
    assert "by-gcloud" in versions
    gcloud("ai", "models", "delete", *where, "by_gcloud").ok()
    assert "NOT_FOUND" in gcloud("ai", "models", "describe", *where, "by_gcloud").stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ai", "endpoints", "create", "--display-name=e"), "there are no endpoints here"),
        (
            ("ai", "persistent-resources", "create", "--persistent-resource-id=p",
             "--resource-pool-spec=replica-count=1,machine-type=n1-standard-4"),
            "there are no persistent resources here",
        ),
        (("ai", "tensorboards", "create", "--display-name=t"), "there are no TensorBoard"),
        (
            ("ai-platform", "jobs", "submit", "prediction", "p", "--data-format=text",
             "--input-paths=gs://out-bkt/x", "--output-path=gs://out-bkt/y", "--model=m"),
            "there is no batch prediction here",
        ),
        (("ai-platform", "models", "create", "m", "--regions=us-central1"), "no models of AI"),
    ],
)  # fmt: skip
def test_what_is_not_here_is_refused_in_one_sentence(gcloud, words, sentence):
    region = () if "models" in words else ("--region=us-central1",)
    done = gcloud(*words, *region)
    assert done.code == 1
    assert sentence in done.stderr
    assert done.stderr.count("(accepted: ") <= 1
