"""``local train`` with a file or machine flags: the whole cluster, checked first."""

import json
import sys
import zipfile

import pytest

from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.calibration_file import written as calibration_text
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.training import Training

LOCAL = ("ai-platform", "local", "train")
TRAIN = (*LOCAL, "--module-name", "trainer.task")
TELL = """
import json, os, sys
config = json.loads(os.environ["TF_CONFIG"])
print(json.dumps({"task": config["task"], "argv": sys.argv[1:], "job": config["job"]}))
"""
CONFIG = {
    "jobId": "digits_1",
    "trainingInput": {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "masterType": "n1-highcpu-16",
        "masterConfig": {"acceleratorConfig": {"count": 4, "type": "NVIDIA_TESLA_T4"}},
        "workerType": "n1-highcpu-16",
        "workerCount": 2,
        "args": ["--from-file"],
    },
}
#: Replicas that wait for each other, so that all of them have spoken before the primary ends.
TOGETHER = (
    TELL
    + """
import pathlib, time
pathlib.Path(config["task"]["type"] + str(config["task"]["index"])).touch()
deadline = time.monotonic() + 60
while len(list(pathlib.Path().glob("[a-z]*[0-9]"))) < COUNT and time.monotonic() < deadline:
    time.sleep(0.01)
"""
)


def parse_log(run):
    lines = [line.split(" │ ", 1) for line in run.out.splitlines() if " │ " in line]
    return {name.strip(): json.loads(text) for name, text in lines}


def test_every_replica_of_the_file_runs_and_the_cluster_is_shown_first(trainshed, trainer, written):
    trainer(TOGETHER.replace("COUNT", "3"))
    run = trainshed(*TRAIN, "--config", written("config.json", CONFIG))
    assert run.code == 0
    assert run.out.startswith("ROLE")
    assert "4 x NVIDIA_TESLA_T4" in run.out.splitlines()[2]
    assert set(parse_log(run)) == {"master-replica-0", "worker-replica-0", "worker-replica-1"}
    assert parse_log(run)["worker-replica-1"]["argv"] == ["--from-file"]
    assert run.err.count("NVIDIA_TESLA_T4") <= 1


def test_flags_and_user_arguments_win_over_the_file(trainshed, trainer, written):
    trainer(TOGETHER.replace("COUNT", "4"))
    words = ("--config", written("config.json", CONFIG), "--worker-count", "3", "--job-dir", "out")
    run = trainshed(*TRAIN, *words, "--", "--epochs", "2")
    assert run.code == 0
    replicas = parse_log(run)
    assert len(replicas) == 4
    assert replicas["worker-replica-2"]["argv"] == ["--epochs", "2", "--job-dir", "out"]
    assert replicas["worker-replica-2"]["job"]["worker_count"] == "3"


def test_machine_flags_alone_make_a_checked_cluster(trainshed, trainer):
    trainer(TELL)
    words = ("--scale-tier", "custom", "--master-machine-type", "n1-standard-4")
    run = trainshed(*TRAIN, *words)
    assert run.code == 0
    assert "n1-standard-4" in run.out
    run = trainshed(*TRAIN, "--scale-tier", "custom", "--worker-machine-type", "n1-standard-4")
    assert run.code == 2
    assert "--master-machine-type:" in run.err


def test_a_scale_tier_runs_its_exact_cluster(trainshed, trainer, written):
    trainer(TELL)
    words = ("--config", written("c.json", {"trainingInput": {"scaleTier": "STANDARD_1"}}))
    run = trainshed(*TRAIN, *words, "--dry-run", "--format", "json")
    roles = [replica["role"] for replica in run.json["replicas"]]
    assert roles == ["primary"] + ["worker"] * 4 + ["parameter_server"] * 3


def test_a_refused_job_starts_nothing_and_names_every_field(trainshed, trainer, written, tmp_path):
    trainer("open('ran', 'w')")
    bad = {"trainingInput": {**CONFIG["trainingInput"], "workerType": "standard", "region": "mars"}}
    run = trainshed(*TRAIN, "--config", written("c.json", bad), "--job-dir", "out")
    assert run.code == 2
    assert run.err.startswith("error: the job is refused; nothing was started\n")
    assert "trainingInput.region" in run.err
    assert "trainingInput.workerType" in run.err
    assert run.out == ""
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "out").exists()


def test_software_that_is_named_is_checked_and_what_is_missing_is_this_machines(
    trainshed, trainer, written
):
    trainer(TELL)
    old = {**CONFIG["trainingInput"], "runtimeVersion": "1.14", "pythonVersion": "3.7"}
    name = written("c.json", {"trainingInput": old})
    run = trainshed(*TRAIN, "--config", name)
    assert run.code == 2
    assert "trainingInput.pythonVersion" in run.err
    assert trainshed(*TRAIN, "--config", name, "--scope", "machines", "--dry-run").code == 0


def test_a_runtime_version_is_said_not_to_be_here(trainshed, trainer):
    trainer(TELL)
    version = ("--runtime-version", "1.15", "--python-version", "3.7")
    run = trainshed(*TRAIN, "--distributed", "--worker-count", "0", *version)
    assert run.code == 0
    assert f"Runtime version 1.15 is not installed: the job runs in {sys.executable}" in run.err
    assert parse_log(run)["master-replica-0"]["task"]["type"] == "master"


def test_a_container_without_a_command_runs_the_module_of_the_flag(trainshed, trainer, written):
    trainer(TELL)
    image = {"trainingInput": {"masterConfig": {"imageUri": "img:1"}}}
    name = written("c.json", image)
    assert trainshed(*TRAIN, "--config", name).code == 0
    run = trainshed(*LOCAL, "--config", name)
    assert run.code == 2
    assert "trainingInput.masterConfig.containerCommand" in run.err


def test_a_containers_own_command_runs_on_this_python(trainshed, written):
    config = {"imageUri": "img:1", "containerCommand": ["python3", "-c", "print('from inside')"]}
    name = written("c.json", {"trainingInput": {"masterConfig": config}})
    run = trainshed(*LOCAL, "--config", name)
    assert run.code == 0
    assert "from inside" in run.out
    assert "A local run starts no containers" in run.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONFIG, "--module-name is required"),
        ({"workerPoolSpecs": [{}]}, "trainshed ai custom-jobs local-run --config c.json"),
        ({"something": "else"}, "it has none of the keys that a job begins with"),
        ("trainingInput:\n\tscaleTier: CUSTOM\n", "line 2, column 1"),
        ("a: 1\n---\nb: 2\n", "must have one document, got 2"),
    ],
)
def test_a_file_that_is_no_such_job_is_exit_code_2(trainshed, written, content, message):
    name = "c.json" if isinstance(content, dict) else "c.yaml"
    run = trainshed(*LOCAL, "--config", written(name, content))
    assert run.code == 2
    assert message in run.err
    assert run.out == ""


def test_what_a_local_run_does_not_do_is_said(trainshed, trainer, written):
    trainer(TELL)
    training = {
        "hyperparameters": {
            "params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1}]
        },
        "scheduling": {"maxRunningTime": "7200s"},
    }
    run = trainshed(*TRAIN, "--config", written("c.json", {"trainingInput": training}))
    assert run.code == 0, run.err
    assert "A local run runs a tuning job once, without the parameters of a trial." in run.err
    assert "A local run may take any time: the job's limit of 7200 s does not end it." in run.err


def test_distributed_adds_nothing_to_a_file(trainshed, trainer, written):
    trainer(TELL)
    one = {"trainingInput": {"scaleTier": "CUSTOM", "masterType": "n1-standard-4"}}
    run = trainshed(*TRAIN, "--config", written("c.json", one), "--distributed")
    assert run.code == 0
    assert "--distributed is ignored" in run.err
    assert set(parse_log(run)) == {"master-replica-0"}


def test_a_package_in_a_bucket_is_installed_once_and_run(trainshed, written, home):
    wheel(home / "data/buckets/bucket/digits-1.0-py3-none-any.whl")
    uri = "gs://bucket/digits-1.0-py3-none-any.whl"
    spec = {"trainingInput": {"packageUris": [uri], "pythonModule": "digits.task"}}
    name = written("c.json", spec)
    for installs in (True, False):
        run = trainshed(*LOCAL, "--config", name, "--scope", "machines")
        assert run.code == 0, run.err
        assert "from the wheel" in run.out
        assert ("installing" in run.err) is installs
    assert list((home / "cache").iterdir())


def wheel(path):
    """A wheel of one module, written by hand: no build tool is needed."""
    path.parent.mkdir(parents=True)
    info = "digits-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("digits/__init__.py", "")
        archive.writestr("digits/task.py", "print('from the wheel')")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: digits\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        names = ["digits/__init__.py", "digits/task.py", f"{info}/METADATA", f"{info}/WHEEL"]
        rows = [f"{name},," for name in (*names, f"{info}/RECORD")]
        archive.writestr(f"{info}/RECORD", "\n".join(rows) + "\n")


def test_a_package_that_does_not_build_is_told_and_nothing_is_started(trainshed, trainer, tmp_path):
    package = trainer("open('ran', 'w')")
    (tmp_path / "setup.py").write_text("raise RuntimeError('no compiler here')")
    run = trainshed(*TRAIN, "--package-path", package)
    assert run.code == 1
    assert "no compiler here" in run.err
    assert "error: " in run.err
    assert "Traceback" not in run.err.split("error: ")[-1]
    assert not (tmp_path / "ran").exists()


def test_a_package_of_the_command_line_replaces_the_files_packages(trainshed, trainer, written):
    """As gcloud does (contract 3.2): the file's tarball need not exist any more."""
    trainer(TELL)
    uris = {"packageUris": ["gs://gone/x.tar.gz"], "pythonModule": "trainer.task"}
    name = written("c.json", {"trainingInput": {"scaleTier": "BASIC", **uris}})
    assert trainshed(*TRAIN, "--config", name).code == 2
    assert trainshed(*TRAIN, "--config", name, "--package-path", "trainer").code == 0


def test_a_runtime_that_google_has_retired_still_runs_here(trainshed, trainer, written):
    trainer(TELL)
    training_input = {"scaleTier": "BASIC", "runtimeVersion": "1.8", "pythonVersion": "3.5"}
    run = trainshed(*TRAIN, "--config", written("c.json", {"trainingInput": training_input}))
    assert run.code == 0, run.err
    assert "runtime version 1.8 is blocked for training" in run.err


@pytest.fixture
def calibration(tmp_path):
    """Of CONFIG's machines: a model whose gradients are large beside its steps."""
    host = HostKind(
        machine_type="n1-highcpu-16", accelerator="NVIDIA_TESLA_T4", per_host=4, network_gbps=10
    )
    training = Training(batch_per_accelerator=64, parameters=3e8, gradient_bytes=1.2e9)
    run = Run(kind=RunKind.COMPUTE, steps=100, step_s=0.05)
    path = tmp_path / "calibration.toml"
    path.write_text(calibration_text(calibrated(training, host, [run])))
    return path


BALANCED = {**CONFIG["trainingInput"], "workerConfig": CONFIG["trainingInput"]["masterConfig"]}
LARGE = {"jobId": "large", "trainingInput": BALANCED}


def test_a_dry_run_says_what_the_plan_is_worth(trainshed, trainer, written, calibration):
    trainer(TELL)
    words = (*TRAIN, "--config", written("c.json", LARGE), "--dry-run", "--calibration")
    run = trainshed(*words, calibration)
    assert run.code == 0, run.err
    (note,) = [line for line in run.out.splitlines() if "Plan: " in line]
    assert "12 GPUs: " in note
    assert "% efficiency" in note
    (same,) = json.loads(trainshed(*words, calibration, "--format", "json").out)["notes"]
    assert note.endswith(same)
    assert "Plan: " not in trainshed(*words, calibration, "--no-plan").out


def test_a_run_says_the_same_and_runs(trainshed, trainer, written, calibration):
    trainer("")
    words = (*TRAIN, "--config", written("c.json", LARGE), "--calibration", calibration)
    run = trainshed(*words)
    assert run.code == 0, run.err
    assert (run.out + run.err).count("Plan: 12 GPUs") == 1


def test_a_trainer_that_was_changed_since_is_not_planned(trainshed, trainer, written, calibration):
    folder = trainer(TELL)
    text = calibration.read_text()
    calibration.write_text(text.replace('trainer_digest = ""', 'trainer_digest = "aa"'))
    words = (*TRAIN, "--config", written("c.json", LARGE), "--dry-run", "--package-path", folder)
    run = trainshed(*words, "--calibration", calibration)
    assert run.code == 0, run.err
    assert "No plan: the calibration was measured with another trainer" in run.out


@pytest.mark.parametrize("text", ["", "schema = 1", None])
def test_a_file_that_is_no_calibration_is_refused_and_nothing_starts(
    trainshed, trainer, written, tmp_path, text
):
    trainer("open('started', 'w')")
    path = tmp_path / "other.toml"
    if text is not None:
        path.write_text(text)
    run = trainshed(*TRAIN, "--config", written("c.json", LARGE), "--calibration", path)
    assert run.code == 2
    assert "other.toml" in run.err
    assert not (tmp_path / "started").exists()
