"""Unmodified gcloud: ai-platform jobs on a real server (docs/sources/gcloud.md 3, 4, 7, 8)."""

import json

import pytest
import yaml

from conformance.gcloud import needs_gcloud

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_gcloud]

CUSTOM = """\
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-highcpu-16
  masterConfig:
    acceleratorConfig: {count: 4, type: NVIDIA_TESLA_T4}
  workerType: n1-highcpu-16
  workerCount: 2
  workerConfig:
    acceleratorConfig: {count: 4, type: NVIDIA_TESLA_T4}
  parameterServerType: n1-highmem-8
  parameterServerCount: 1
  runtimeVersion: "2.11"
  pythonVersion: "3.7"
  pythonModule: trainer.task
  region: us-central1
  args: [--from-config, "1"]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CUSTOM)
    return path


def described(gcloud, job):
    return yaml.safe_load(gcloud("ai-platform", "jobs", "describe", job).ok().stdout)


def submit(gcloud, job, *flags, user_args=()):
    words = ["--", *user_args] if user_args else []
    return gcloud("ai-platform", "jobs", "submit", "training", job, *flags, *words)


BASIC = ("--runtime-version", "2.11", "--python-version", "3.7", "--module-name", "trainer.task")


def test_a_package_job_from_flags_runs_streams_and_succeeds(real_gcloud, trainer):
    done = submit(
        real_gcloud, "from_flags", "--package-path", trainer, "--staging-bucket", "gs://stage-bkt",
        "--job-dir", "gs://out-bkt/from_flags", "--stream-logs", *BASIC,
        user_args=["--epochs", "3", "pos"],
    )  # fmt: skip
    assert done.code == 0, done.stderr
    assert "state: SUCCEEDED" in done.stdout
    arguments = json.dumps(["--epochs", "3", "pos", "--job-dir", "gs://out-bkt/from_flags"])
    lines = [line for line in done.stderr.splitlines() if "master-replica-0" in line]
    assert [line for line in lines if arguments in line]
    assert [line for line in lines if line.startswith("WARNING") and "from a json line" in line]
    assert sum("trained" in line for line in lines) == 1


def test_a_google_image_runs_a_module_and_a_runtime_version_needs_no_python(
    gcloud, server, trainer
):
    package = ("--package-path", trainer, "--staging-bucket", "gs://stage-bkt")
    module = (*package, "--module-name", "trainer.task")
    image = "gcr.io/cloud-ml-public/training/pytorch-gpu.1-4"
    submit(gcloud, "in_image", "--master-image-uri", image, "--scale-tier", "BASIC", *module).ok()
    submit(gcloud, "no_python", "--runtime-version", "1.15", *module).ok()
    for job, framework in (
        ("in_image", "PyTorch 1.4"),
        ("no_python", "TensorFlow 1.15.0 on Python 2.7"),
    ):
        document = server.wait_for(f"/v1/projects/demo-proj/jobs/{job}", {"SUCCEEDED", "FAILED"})
        assert document["state"] == "SUCCEEDED", document
        logged = (
            gcloud("ai-platform", "jobs", "stream-logs", job, "--polling-interval=1").ok().stdout
        )
        assert f"Asked for {framework} (" in logged


def test_a_job_that_fails_makes_gcloud_exit_with_1(gcloud, trainer):
    done = submit(
        gcloud, "fails", "--package-path", trainer, "--staging-bucket", "gs://stage-bkt",
        "--stream-logs", *BASIC, user_args=["--fail"],
    )  # fmt: skip
    assert done.code == 1
    assert "state: FAILED" in done.stdout
    failed = described(gcloud, "fails")
    assert "master-replica-0 exited with a non-zero status of 3" in failed["errorMessage"]
    assert failed["endTime"]


def test_a_distributed_job_from_a_config_file_runs_on_all_its_replicas(
    gcloud, server, trainer, config
):
    submit(
        gcloud, "from_config", "--config", config, "--package-path", trainer,
        "--staging-bucket", "gs://stage-bkt",
    ).ok()  # fmt: skip
    job = server.wait_for("/v1/projects/demo-proj/jobs/from_config", {"SUCCEEDED", "FAILED"})
    assert job["state"] == "SUCCEEDED", job
    lines = (
        gcloud("ai-platform", "jobs", "stream-logs", "from_config", "--polling-interval=1")
        .ok()
        .stdout
    )
    for task in ("master-replica-0", "worker-replica-0", "worker-replica-1", "ps-replica-0"):
        assert task in lines
    assert '["--from-config", "1"]' in lines


def test_flags_win_over_the_config_file_field_by_field(gcloud, config):
    submit(
        gcloud, "merged", "--config", config, "--packages", "gs://stage-bkt/p.tar.gz",
        "--master-accelerator", "count=2,type=nvidia-tesla-t4", "--worker-count", "3",
        "--worker-machine-type", "n1-highcpu-16", user_args=["--mine"],
    ).ok()  # fmt: skip
    training = described(gcloud, "merged")["trainingInput"]
    assert training["masterConfig"]["acceleratorConfig"]["count"] == "2"
    assert training["workerConfig"]["acceleratorConfig"]["count"] == "4"
    assert training["workerCount"] == "3"
    assert training["args"] == ["--mine"]


def test_list_shows_the_newest_first_and_filters_at_the_client(gcloud):
    for name in ("listed_1", "listed_2"):
        submit(gcloud, name, "--packages", "gs://stage-bkt/p.tar.gz", *BASIC).ok()
    job_ids = gcloud("ai-platform", "jobs", "list", "--format", "value(jobId)").ok().stdout.split()
    assert job_ids.index("listed_2") < job_ids.index("listed_1")
    one = gcloud(
        "ai-platform", "jobs", "list", "--filter", "jobId=listed_1", "--format", "value(jobId)"
    )
    assert one.ok().stdout.split() == ["listed_1"]


def test_describe_summarize_prints_its_tables(gcloud, server, trainer):
    submit(
        gcloud, "summed", "--package-path", trainer, "--staging-bucket", "gs://stage-bkt", *BASIC
    ).ok()
    server.wait_for("/v1/projects/demo-proj/jobs/summed", {"SUCCEEDED"})
    output = gcloud("ai-platform", "jobs", "describe", "summed", "--summarize").ok().stdout
    assert "summed" in output
    assert "SUCCEEDED" in output
    assert "trainer.task" in output


def test_labels_are_updated_and_cleared(gcloud):
    submit(
        gcloud, "labelled", "--packages", "gs://stage-bkt/p.tar.gz", "--labels", "a=1", *BASIC
    ).ok()
    gcloud("ai-platform", "jobs", "update", "labelled", "--update-labels", "b=2").ok()
    assert described(gcloud, "labelled")["labels"] == {"a": "1", "b": "2"}
    gcloud("ai-platform", "jobs", "update", "labelled", "--clear-labels").ok()
    assert "labels" not in described(gcloud, "labelled")


def test_a_running_job_is_cancelled_and_cancelling_again_is_fine(gcloud, server, trainer):
    submit(
        gcloud, "cancelled", "--package-path", trainer, "--staging-bucket", "gs://stage-bkt",
        *BASIC, user_args=["--sleep", "600"],
    ).ok()  # fmt: skip
    server.wait_for("/v1/projects/demo-proj/jobs/cancelled", {"RUNNING"})
    gcloud("ai-platform", "jobs", "cancel", "cancelled").ok()
    job = server.wait_for("/v1/projects/demo-proj/jobs/cancelled", {"CANCELLED"})
    assert job["endTime"]
    assert job["errorMessage"]
    gcloud("ai-platform", "jobs", "cancel", "cancelled").ok()


def test_the_older_name_is_an_alias(gcloud):
    done = gcloud(
        "ml-engine", "jobs", "submit", "training", "older", "--packages",
        "gs://stage-bkt/p.tar.gz", *BASIC,
    ).ok()  # fmt: skip
    assert "Job [older] submitted successfully." in done.stderr


REFUSED = {
    "unknown key": ("trainingInput: {scaleTier: BASIC, maxTrialsX: 8}", "maxTrialsX"),
    "unknown enum": ("trainingInput: {scaleTier: HUGE}", "scaleTier"),
    "three V100": (
        """
        trainingInput:
          scaleTier: CUSTOM
          masterType: n1-standard-8
          masterConfig: {acceleratorConfig: {count: 3, type: NVIDIA_TESLA_V100}}
        """,
        "acceleratorConfig.count",
    ),
    "no such machine": ("trainingInput: {scaleTier: CUSTOM, masterType: n9-huge}", "masterType"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_field_in_the_callers_words(gcloud, tmp_path, case):
    text, field = REFUSED[case]
    (tmp_path / "bad.yaml").write_text(text)
    done = submit(
        gcloud, "refused", "--config", tmp_path / "bad.yaml", "--packages",
        "gs://stage-bkt/p.tar.gz", *BASIC,
    )  # fmt: skip
    assert done.code == 1
    assert "INVALID_ARGUMENT" in done.stderr
    assert field in done.stderr
    assert "fieldViolations" in done.stderr
    assert "NOT_FOUND" in gcloud("ai-platform", "jobs", "describe", "refused").stderr


def test_one_id_is_given_once(gcloud):
    flags = ("--packages", "gs://stage-bkt/p.tar.gz", *BASIC)
    submit(gcloud, "twice", *flags).ok()
    again = submit(gcloud, "twice", *flags, "--labels", "other=1")
    assert again.code == 1
    assert "is the subject of a conflict" in again.stderr


def test_an_upload_to_an_unknown_bucket_is_refused_by_name(gcloud, trainer):
    done = submit(
        gcloud, "nowhere", "--package-path", trainer, "--staging-bucket", "gs://missing-bkt", *BASIC
    )
    assert done.code == 1
    assert "missing-bkt" in done.stderr


def test_a_wrong_token_is_told_so(gcloud, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("tsd_wrong")
    done = gcloud(
        "ai-platform", "jobs", "describe", "x", CLOUDSDK_AUTH_ACCESS_TOKEN_FILE=str(wrong)
    )
    assert done.code == 1
    assert "UNAUTHENTICATED" in done.stderr


@pytest.mark.full  # above each verb is called once, two by the command itself
def test_a_day_with_the_real_command(real_gcloud, server, config):
    """Every verb once as its own process, as a user types it."""
    flags = ("--config", config, "--packages", "gs://stage-bkt/p.tar.gz")
    submit(real_gcloud, "day_config", *flags).ok()
    submit(real_gcloud, "day_both", *flags, *BASIC, user_args=["--mine"]).ok()
    assert described(real_gcloud, "day_both")["trainingInput"]["args"] == ["--mine"]
    real_gcloud("ai-platform", "jobs", "update", "day_both", "--update-labels", "a=1").ok()
    assert described(real_gcloud, "day_both")["labels"] == {"a": "1"}
    assert "day_config" in real_gcloud("ml-engine", "jobs", "list").ok().stdout
    output = real_gcloud("ai-platform", "jobs", "describe", "day_config", "--summarize").ok().stdout
    assert "n1-highcpu-16" in output
    real_gcloud("ai-platform", "jobs", "cancel", "day_config").ok()
    job = server.wait_for("/v1/projects/demo-proj/jobs/day_config", {"FAILED", "CANCELLED"})
    assert job["endTime"], "its package is missing: it fails, or was cancelled before"


def test_an_anonymous_call_is_told_how_to_get_in(gcloud):
    done = gcloud(
        "ai-platform", "jobs", "describe", "x",
        CLOUDSDK_AUTH_ACCESS_TOKEN_FILE="", CLOUDSDK_AUTH_DISABLE_CREDENTIALS="true",
    )  # fmt: skip
    assert done.code == 1
    assert "PERMISSION_DENIED" in done.stderr
