"""``local train`` without a file: what gcloud's command does, and its bad input."""

import json
import socket
import sys

import pytest

TRAIN = ("ai-platform", "local", "train", "--module-name", "trainer.task")
TELL = """
import json, os, sys
config = json.loads(os.environ["TF_CONFIG"])
print(json.dumps({"task": config["task"], "cluster": config["cluster"], "argv": sys.argv[1:],
                  "cwd": os.getcwd(), "python": sys.executable}))
"""


def parse_log(run):
    """What each replica printed, by its name."""
    lines = [line.split(" │ ", 1) for line in run.out.splitlines() if " │ " in line]
    return {name.strip(): json.loads(text) for name, text in lines}


def test_one_process_runs_in_place_with_its_arguments_untouched(trainshed, trainer, tmp_path):
    trainer(TELL)
    run = trainshed(*TRAIN, "--", "--epochs", "3", "--", "--job-name=x")
    assert run.code == 0
    replica = parse_log(run)["master-replica-0"]
    assert replica["argv"] == ["--epochs", "3", "--", "--job-name=x"]
    assert replica["cwd"] == str(tmp_path)
    assert replica["task"] == replica["cluster"] == {}  # as gcloud (contract 9.1)


def test_distributed_is_gclouds_cluster_on_consecutive_ports(trainshed, trainer):
    trainer(
        TELL + "sys.stdout.flush()\n"
        "import pathlib, time\n"
        "pathlib.Path(config['task']['type'] + str(config['task']['index'])).touch()\n"
        "deadline = time.monotonic() + 60\n"
        "while len(list(pathlib.Path().glob('[cwp]*[0-9]'))) < 4 and time.monotonic() < deadline:\n"
        "    time.sleep(0.01)\n"
    )
    flags = ("--distributed", "--worker-count", "2", "--parameter-server-count=1")
    start = free_block(5)
    run = trainshed(*TRAIN, *flags, "--start-port", start)
    assert run.code == 0
    cluster = parse_log(run)["worker-replica-1"]["cluster"]
    assert {
        role: [int(a.split(":")[1]) - start for a in all_] for role, all_ in cluster.items()
    } == {
        "chief": [0],
        "ps": [1],
        "worker": [2, 3],
    }
    assert "parameter server" in run.out


def free_block(count):
    """The first of some consecutive ports that nobody has at the moment."""
    for start in range(20000, 30000, count):
        with socket.socket() as probe:
            if all(probe.connect_ex(("127.0.0.1", start + i)) for i in range(count)):
                return start
    raise AssertionError("no free ports")


def test_the_job_folder_is_made_and_handed_to_the_trainer(trainshed, trainer, home):
    trainer(TELL)
    run = trainshed(*TRAIN, "--job-dir", "gs://my-bucket/out", "--", "--epochs", "3")
    place = home / "data/buckets/my-bucket/out"
    assert place.is_dir()
    assert parse_log(run)["master-replica-0"]["argv"] == ["--epochs", "3", "--job-dir", str(place)]
    assert "output:" not in run.out  # nothing was written there


def test_a_trainer_with_a_cloud_client_may_keep_the_uri(trainshed, trainer, home):
    trainer(TELL)
    run = trainshed(*TRAIN, "--job-dir", "gs://my-bucket/out", "--gs-paths", "uri")
    assert parse_log(run)["master-replica-0"]["argv"] == ["--job-dir", "gs://my-bucket/out"]
    assert not (home / "data/buckets").exists()


def test_the_exit_code_of_the_trainer_is_passed_on_and_told(trainshed, trainer):
    trainer("raise SystemExit(3)")
    run = trainshed(*TRAIN)
    assert run.code == 3
    assert "failed" in run.out


def test_the_trainers_own_error_comes_first_when_its_module_does_not_import(trainshed, trainer):
    trainer("import no_such_framework")
    run = trainshed(*TRAIN)
    assert run.code == 1
    assert "No module named 'no_such_framework'" in run.err
    assert "error:" not in run.err.lower().replace("modulenotfounderror:", "")
    assert "failed" in run.out


def test_a_metric_of_the_primary_is_in_the_last_table(trainshed, trainer):
    trainer(
        "import json, pathlib, sys\n"
        "folder = pathlib.Path(sys.argv[sys.argv.index('--job-dir') + 1])\n"
        "(folder / 'result.json').write_text(json.dumps({'accuracy': 0.9712, 'epochs': 3}))\n"
    )
    run = trainshed(*TRAIN, "--job-dir", "out")
    header, _, row = run.out.strip().splitlines()[:3]
    assert header.split() == ["ROLE", "REPLICA", "EXIT", "SECONDS", "STATE", "ACCURACY"]
    assert row.split()[-1] == "0.9712"


def test_json_is_one_object_on_stdout_and_the_replicas_speak_on_stderr(trainshed, trainer):
    trainer("print('hello')")
    run = trainshed(*TRAIN, "--format", "json")
    assert run.json["exit_code"] == 0
    assert [r["state"] for r in run.json["replicas"]] == ["succeeded"]
    assert "master-replica-0 │ hello" in run.err


def test_a_dry_run_prints_the_plan_and_starts_nothing(trainshed, trainer, tmp_path):
    trainer("open('ran', 'w')")
    run = trainshed(*TRAIN, "--distributed", "--job-dir", "out", "--dry-run", "--format", "json")
    assert run.code == 0
    names = [replica["task_name"] for replica in run.json["replicas"]]
    assert names == [
        "master-replica-0",
        "worker-replica-0",
        "worker-replica-1",
        "ps-replica-0",
        "ps-replica-1",
    ]
    table = trainshed(*TRAIN, "--dry-run").out
    assert "python -m trainer.task" in table
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "out").exists()


def test_the_interpreter_may_be_chosen(trainshed, trainer, monkeypatch):
    trainer(TELL)
    monkeypatch.setenv("TRAINSHED_PYTHON", "/no/such/python")
    assert trainshed(*TRAIN).code == 2
    assert trainshed(*TRAIN, "--python", sys.executable).code == 0


@pytest.mark.parametrize(
    "flag", ["--job-dir", "--package-path", "--runtime-version", "--module-name"]
)
def test_a_flag_of_the_service_after_the_dashes_is_refused(trainshed, trainer, flag):
    trainer(TELL)
    for words in ([flag, "x"], [f"{flag}=x"]):
        run = trainshed(*TRAIN, "--", "--epochs", "3", *words)
        assert run.code == 2
        assert f"put {flag} before the --" in run.err
        assert run.out == ""


@pytest.mark.parametrize(
    "flag", ["--config", "--region", "--labels", "--worker-count", "--scale-tier", "--packages"]
)
def test_flags_that_trainers_have_too_reach_them(trainshed, trainer, flag):
    trainer(TELL)
    assert parse_log(trainshed(*TRAIN, "--", flag, "x"))["master-replica-0"]["argv"] == [flag, "x"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--worker-cout", "2"),
            "unknown argument --worker-cout; did you mean --worker-count",
        ),
        (
            ("--epochs", "3"),
            "unknown argument --epochs; put the program's own arguments after a bare --;",
        ),
        (("--worker-count", "two", "--distributed"), "--worker-count must be a whole number"),
        (("--start-port", "x"), "--start-port"),
        (("--package-path", "absent"), "--package-path absent is not a folder"),
        (("--packages", "absent.whl"), "the package absent.whl does not exist"),
        (("--config", "absent.yaml"), "cannot read absent.yaml: No such file"),
        (("JOB", "extra"), "unknown argument extra"),
    ],
)
def test_usage_errors_are_one_line_and_exit_code_2(trainshed, trainer, words, message):
    trainer(TELL)
    run = trainshed(*TRAIN, *words)
    assert run.code == 2
    assert message in run.err
    assert run.err.count("\n") == 1
    assert run.out == ""


def test_a_module_is_needed(trainshed):
    run = trainshed("ai-platform", "local", "train")
    assert (run.code, run.out) == (2, "")
    assert "--module-name is required" in run.err


def test_counts_without_distributed_and_idle_flags_are_said_to_be_ignored(trainshed, trainer):
    trainer(TELL)
    run = trainshed(*TRAIN, "--worker-count", "3", "--staging-bucket", "gs://x", "--quiet")
    assert run.code == 0
    assert "--worker-count is ignored without --distributed" in run.err
    assert "--staging-bucket has no effect on this machine" in run.err


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("gs://B/out", "'B' is not a bucket name"),
        ("gs://bucket/../out", "not have '.' or '..'"),
        ("s3://bucket/out", "neither in a bucket nor on this machine"),
        ("", "the directory is empty"),
    ],
)
def test_a_job_dir_that_is_no_path_is_refused_before_anything_starts(
    trainshed, trainer, place, message
):
    trainer(TELL)
    run = trainshed(*TRAIN, f"--job-dir={place}")
    assert run.code == 2
    assert "--job-dir: " in run.err
    assert message in run.err
    assert run.out == ""


def test_flags_of_a_checked_job_say_nothing_in_a_run_that_checks_none(trainshed, trainer):
    trainer(TELL)
    run = trainshed(*TRAIN, "--labels", "a=b", "--edition", "2020-05")
    assert run.code == 0
    assert "--labels is ignored without --config." in run.err
    assert "--edition is ignored without --config." in run.err


def test_the_first_line_says_which_python_runs_the_job_and_by_which_rule(
    trainshed, trainer, home, tmp_path, monkeypatch
):
    trainer("")
    other = tmp_path / "python-of-a-rule"
    other.symlink_to(sys.executable)
    (home / "data").mkdir()

    def first_line(*flags):
        run = trainshed(*TRAIN, *flags)
        assert run.code == 0, run.err
        return run.err.splitlines()[0]

    assert f"The job runs in {sys.executable} (the Python of trainshed; --python," in first_line()
    (home / "data/config.toml").write_text(f'[[environment]]\nname = "default"\npython = "{other}"')
    config = home / "data/config.toml"
    message = f'The job runs in {other} ([[environment]] "default" of {config}).'
    assert message in first_line()
    monkeypatch.setenv("TRAINSHED_PYTHON", sys.executable)
    assert f"The job runs in {sys.executable} (TRAINSHED_PYTHON)." in first_line()
    assert f"The job runs in {other} (--python)." in first_line("--python", other)


def test_a_local_run_uses_the_environment_that_the_server_would_use(
    trainshed, trainer, home, written
):
    trainer("")
    (home / "data").mkdir()
    (home / "data/config.toml").write_text(
        f'[[environment]]\nname = "old"\npython = "{sys.executable}"\n'
        '[[image]]\nruntime_version = "2.4"\nenvironment = "old"\n'
    )
    config = written(
        "job.yaml",
        "trainingInput:\n  region: us-central1\n  runtimeVersion: '2.4'\n  pythonVersion: '3.7'\n",
    )
    run = trainshed(*TRAIN, "--config", config)
    assert run.code == 0, run.err
    assert f'The job runs in {sys.executable} ([[environment]] "old" of ' in run.err
    assert "the configuration maps it to environment old" in run.err
    assert "is not installed" not in run.err


def test_a_broken_configuration_does_not_stop_a_local_run(trainshed, trainer, home):
    trainer("")
    (home / "data").mkdir()
    (home / "data/config.toml").write_text("[[environment]\n")
    run = trainshed(*TRAIN)
    assert run.code == 0, run.err
    assert f"cannot read the settings {home}/data/config.toml" in run.err.splitlines()[0]


def test_a_missing_package_is_told_at_the_end_with_the_python_that_lacks_it(trainshed, trainer):
    trainer("raise ModuleNotFoundError(\"No module named 'xgboost'\")")
    run = trainshed(*TRAIN)
    assert run.code == 1
    message = f"runs in {sys.executable}, which has no xgboost; use --python, or [[environment]]"
    assert message in run.out


@pytest.mark.parametrize("python", ["/nope/python", "3.11"])
def test_an_interpreter_that_is_none_is_refused_with_those_of_this_machine(
    trainshed, trainer, python
):
    trainer("")
    run = trainshed(*TRAIN, "--python", python)
    assert run.code == 2
    message = f"--python must be the path of a Python interpreter, got '{python}' (accepted: 3."
    assert message in run.err
