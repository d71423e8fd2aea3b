"""``ai-platform jobs submit training``: packages, flags over the file, logs, exit codes."""

import hashlib
import json
import signal
import subprocess
import sys

import pytest

from server_process import TRAINSHED

BASIC = ("--module-name", "trainer.task", "--runtime-version", "2.11", "--python-version", "3.7")
STAGED = ("--package-path", "trainer", "--staging-bucket", "gs://staging")
CLUSTER = """\
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-4
  workerType: n1-standard-4
  workerCount: 2
  workerConfig:
    acceleratorConfig: {count: 1, type: NVIDIA_TESLA_T4}
  runtimeVersion: "2.11"
  pythonVersion: "3.7"
  region: europe-west1
  enableWebAccess: true
  packageUris: [gs://staging/there.tar.gz]
  pythonModule: trainer.task
  args: [--from-config]
labels: {a: b}
"""


@pytest.fixture
def submit(client, package):  # noqa: ARG001  # the package lies there
    def run(job, *flags, user_args=()):
        words = ["--", *user_args] if user_args else []
        return client("ai-platform", "jobs", "submit", "training", job, *flags, *words)

    return run


def job(server, name):
    status, document = server.call("GET", f"/v1/projects/local/jobs/{name}")
    return document if status == 200 else None


def test_a_package_from_flags_is_uploaded_runs_and_its_lines_are_printed(submit, server):
    run = submit(
        "streamed", *STAGED, *BASIC, "--labels", "team=vision", "--stream-logs",
        user_args=["--epochs", "3"],
    )  # fmt: skip
    assert run.code == 0, run.err
    lines = run.out.splitlines()
    (argv,) = [line for line in lines if 'argv ["--epochs", "3"]' in line]
    assert argv.startswith("INFO")
    assert "master-replica-0 │" in argv
    assert [line for line in lines if line.startswith("WARNING") and "take care" in line]
    assert lines[-1] == "state: SUCCEEDED"
    assert sum("trained" in line for line in lines) == 1
    assert job(server, "streamed")["labels"] == {"team": "vision"}


def test_the_exit_code_is_that_of_the_primary_replica(submit):
    run = submit("failing", *STAGED, *BASIC, "--stream-logs", user_args=["--fail"])
    assert run.code == 3
    assert run.out.splitlines()[-1] == "state: FAILED"
    assert "exited with a non-zero status of 3" in run.out


def test_json_is_the_final_job_alone_and_the_lines_go_to_stderr(submit):
    run = submit("as_json", *STAGED, *BASIC, "--stream-logs", "--format", "json")
    assert (run.code, run.json["jobId"], run.json["state"]) == (0, "as_json", "SUCCEEDED")
    assert "trained" in run.err


def test_a_submit_that_does_not_wait_tells_how_to_see_more(submit, server):
    run = submit("quick", *STAGED, *BASIC, "--project", "local")
    assert run.code == 0
    assert run.out.startswith("jobId: quick\nstate: ")
    assert "trainshed ai-platform jobs stream-logs quick --project=local" in run.err
    assert job(server, "quick")["trainingInput"]["region"] == "us-central1"


def test_the_file_stands_where_no_flag_was_given_and_gcloud_would_overwrite_it(
    submit, server, written
):
    written("config.yaml", CLUSTER)
    assert submit("from_file", "--config", "config.yaml").code == 0
    document = job(server, "from_file")
    training_input = document["trainingInput"]
    assert training_input["packageUris"] == ["gs://staging/there.tar.gz"]
    assert training_input["enableWebAccess"] is True
    assert training_input["region"] == "europe-west1"
    assert training_input["args"] == ["--from-config"]
    assert document["labels"] == {"a": "b"}


def test_flags_win_over_the_file_field_by_field(submit, server, written):
    written("config.yaml", CLUSTER)
    run = submit(
        "merged", "--config", "config.yaml", "--worker-count", "1", "--region", "us-central1",
        "--packages", "gs://staging/other.tar.gz", "--labels", "c=d", "--no-plan",
        "--worker-accelerator", "count=2,type=nvidia-tesla-t4",
        "--service-account", "me@p.iam.gserviceaccount.com", user_args=["--mine"],
    )  # fmt: skip
    assert run.code == 0, run.err
    document = job(server, "merged")
    training_input = document["trainingInput"]
    assert training_input["workerCount"] == "1"
    assert training_input["workerType"] == "n1-standard-4"
    assert training_input["workerConfig"]["acceleratorConfig"]["count"] == "2"
    assert training_input["region"] == "us-central1"
    assert training_input["packageUris"] == ["gs://staging/other.tar.gz"]
    assert training_input["args"] == ["--mine"]
    assert training_input["serviceAccount"] == "me@p.iam.gserviceaccount.com"
    assert document["labels"] == {"c": "d", "trainshed-plan": "off"}


def test_remote_packages_come_first_and_all_local_ones_lie_below_one_digest(
    submit, server, tmp_path
):
    (tmp_path / "dep-1.0.tar.gz").write_bytes(b"dep")
    (tmp_path / "tool-1.0.whl").write_bytes(b"tool")
    packages = "dep-1.0.tar.gz,gs://staging/r.whl,tool-1.0.whl"
    run = submit("listed", *BASIC, "--packages", packages, "--job-dir", "gs://staging/some/dir/")
    assert run.code == 0, run.err
    digest = hashlib.sha256(b"deptool").hexdigest()
    folder = f"gs://staging/some/dir/packages/{digest}"
    uris = job(server, "listed")["trainingInput"]["packageUris"]
    assert uris == ["gs://staging/r.whl", f"{folder}/dep-1.0.tar.gz", f"{folder}/tool-1.0.whl"]
    there = server.data_dir / "buckets" / folder.removeprefix("gs://") / "tool-1.0.whl"
    assert there.read_bytes() == b"tool"


def test_the_same_code_gets_the_same_name_and_the_staging_bucket_wins(submit, server):
    flags = (*STAGED, *BASIC, "--job-dir", "gs://staging/elsewhere")
    assert submit("same_1", *flags).code == submit("same_2", *flags).code == 0
    uris = [job(server, name)["trainingInput"]["packageUris"] for name in ("same_1", "same_2")]
    assert uris[0][0].startswith("gs://staging/same_1/")
    assert uris[0] == [uris[1][0].replace("same_2", "same_1")]
    assert uris[0][0].endswith("/trainer-0.0.0.tar.gz")


def test_a_refusal_names_the_flags_and_nothing_is_stored(submit, server):
    run = submit("refused", *BASIC, "--scale-tier", "custom", "--master-machine-type", "n9-huge",
                  "--packages", "gs://staging/p.tar.gz")  # fmt: skip
    assert run.code == 1
    assert run.err.startswith("error: INVALID_ARGUMENT: ")
    assert "\n  --master-machine-type: there is no machine type n9-huge" in run.err
    assert job(server, "refused") is None


def test_a_refusal_of_a_file_names_its_fields(submit, written):
    written("config.yaml", "trainingInput: {scaleTier: BASIC, maxTrialsX: 8}")
    run = submit("refused", *BASIC, "--config", "config.yaml", "--packages", "gs://staging/p.whl")
    assert run.code == 1
    assert "trainingInput.maxTrialsX" in run.err


def test_one_id_is_given_once(submit):
    flags = ("--packages", "gs://staging/p.tar.gz", *BASIC)
    assert submit("twice", *flags).code == 0
    again = submit("twice", *flags, "--labels", "other=1")
    assert again.code == 1
    assert again.err.startswith("error: ALREADY_EXISTS: ")


def test_a_refusal_in_the_middle_of_a_large_upload_is_told(submit, tmp_path):
    with (tmp_path / "large-1.0.whl").open("wb") as file:
        file.truncate(64 << 20)
    run = submit("large", *BASIC, "--packages", "large-1.0.whl", "--staging-bucket", "gs://gone")
    assert run.code == 1
    assert "buckets create gone" in run.err


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        ((*BASIC, "--package-path", "trainer"), 2, "--staging-bucket gs://BUCKET"),
        ((*BASIC, "--package-path", "trainer", "--job-dir", "out"), 2, "--staging-bucket"),
        ((*STAGED[:2], *BASIC, "--staging-bucket", "gs://gone"), 1, "buckets create gone"),
        ((*BASIC, "--package-path", "nowhere", *STAGED[2:]), 2, "nowhere is not a folder"),
        (
            (*BASIC, "--packages", "none.whl", *STAGED[2:]),
            2,
            "--packages must name files that exist, got none.whl",
        ),
        ((*BASIC, "--config", "none.yaml"), 2, "cannot read none.yaml"),
        ((*BASIC, "--kms-key", "k"), 2, "--kms-location"),
        ((*BASIC, "--work-count", "3"), 2, "did you mean --worker-count?"),
        ((*BASIC, "--epochs", "3"), 2, "put the program's own arguments after a bare --"),
        ((*BASIC, "--", "--job-dir", "gs://staging/x"), 2, "put --job-dir before the --"),
    ],
)
def test_a_mistake_is_told_in_a_line_and_nothing_is_submitted(submit, server, flags, code, text):
    run = submit("mistaken", *flags)
    assert run.code == code
    assert text in run.err
    assert run.err.count("\n") == 1
    assert job(server, "mistaken") is None


def test_the_older_name_of_the_group_is_the_same(client, package):  # noqa: ARG001
    words = ("ml-engine", "jobs", "submit", "training", "older", *STAGED, *BASIC)
    assert client(*words).out.startswith("jobId: older")
    assert "older" in client("ml-engine", "jobs", "list").out


def test_ctrl_c_leaves_the_job_running_and_says_how_to_stop_it(package, server, environ, tmp_path):
    words = [TRAINSHED, "ai-platform", "jobs", "submit", "training", "kept", "--stream-logs",
             *STAGED[:1], package, *STAGED[2:], *BASIC, "--", "--wait"]  # fmt: skip
    with subprocess.Popen(
        words, cwd=tmp_path, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert next(line for line in process.stdout if "take care" in line)
        server.wait_for("/v1/projects/local/jobs/kept", {"RUNNING"})
        process.send_signal(signal.SIGINT)
        err = process.stderr.read()
    assert process.returncode == 130
    assert "the job continues; cancel it with" in err
    assert "trainshed ai-platform jobs cancel kept" in err
    assert job(server, "kept")["state"] == "RUNNING"
    cancel = [TRAINSHED, "ai-platform", "jobs", "cancel", "kept", "--format", "json"]
    assert json.loads(subprocess.check_output(cancel, env=environ)) == {}
    assert server.wait_for("/v1/projects/local/jobs/kept", {"CANCELLED"})["endTime"]


def test_a_project_with_a_setup_file_is_built_as_it_says(submit, server, tmp_path):
    (tmp_path / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='census', version='1.2', packages=['trainer'])\n"
    )
    run = submit("built", *STAGED, *BASIC, "--stream-logs")
    assert run.code == 0, run.out + run.err
    (uri,) = job(server, "built")["trainingInput"]["packageUris"]
    assert uri.endswith("/census-1.2.tar.gz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["setup.py", "trainer"]


MODULES = """\
import sys
from trainshed.cli.main import main
code = main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""
HEAVY = {"yaml", "google.protobuf", "sqlalchemy", "fastapi", "starlette", "uvicorn", "grpc",
         "trainshed.catalog", "trainshed.engines", "trainshed.store", "trainshed.app"}  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("ai-platform", "jobs", "list"),
        ("ai", "custom-jobs", "list"),
        ("ai-platform", "jobs", "submit", "training", "light", *BASIC, "--packages",
         "gs://staging/p.tar.gz"),
        ("nodes",),
    ],
)  # fmt: skip
def test_talking_to_a_server_needs_neither_a_server_nor_the_catalog(environ, words):
    process = subprocess.run(
        [sys.executable, "-c", MODULES, *words],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not HEAVY.intersection(process.stderr.split())
