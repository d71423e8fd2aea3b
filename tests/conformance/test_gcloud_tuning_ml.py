"""Unmodified gcloud: ai-platform jobs with hyperparameters (docs/sources/gcloud.md 3.2, 3.3, 7)."""

import copy
import re

import pytest
import yaml

from conformance.gcloud import needs_gcloud
from conformance.tuning_trainer import IMAGE, TRAINER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_gcloud]

FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}
PARAMS = [
    {"parameterName": "x", "type": "DOUBLE", "minValue": 0.01, "maxValue": 1.0,
     "scaleType": "UNIT_LOG_SCALE"},
    {"parameterName": "units", "type": "INTEGER", "minValue": 1, "maxValue": 5},
    {"parameterName": "opt", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]},
    {"parameterName": "batch", "type": "DISCRETE", "discreteValues": [32, 64]},
]  # fmt: skip
HYPERPARAMETERS = {
    "goal": "MAXIMIZE",
    "hyperparameterMetricTag": "accuracy",
    "maxTrials": 3,
    "maxParallelTrials": 2,
    "params": PARAMS,
}
#: A streamed line: its severity, time, task, trial and message.
LINE = re.compile(r"(\w+)\t(\S+ \S+ \S+)\t([\w-]+)\t(\d*)\t(.*)")


@pytest.fixture
def submit(tmp_path):
    """Submit a job that tunes; the command's answer."""

    def submitting(gcloud, job, *flags, training=None, user_args=(), **spec):
        hyperparameters = copy.deepcopy({**HYPERPARAMETERS, **spec})
        config = {"trainingInput": {"hyperparameters": hyperparameters, **(training or {})}}
        (tmp_path / "hp.yaml").write_text(yaml.safe_dump(config))
        words = ["--", *user_args] if user_args else []
        return gcloud(
            "ai-platform", "jobs", "submit", "training", job, "--region=us-central1",
            "--config", tmp_path / "hp.yaml", *flags, *words,
        )  # fmt: skip

    return submitting


def in_image(then=""):
    """A trainer in an image of the user's own."""
    master = {"imageUri": IMAGE, "containerCommand": ["python", "-c", TRAINER]}
    if then:
        master["containerArgs"] = ["--then", then]
    return {"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "masterConfig": master}


@pytest.fixture
def package(tmp_path):
    """The trainer as a package of the user's own."""
    folder = tmp_path / "proj" / "trainer"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "task.py").write_text(TRAINER)
    return ("--package-path", folder, "--module-name=trainer.task",
            "--staging-bucket=gs://stage-bkt", "--runtime-version=2.11",
            "--python-version=3.7")  # fmt: skip


def ended(server, job):
    return server.wait_for(f"/v1/projects/demo-proj/jobs/{job}", FINAL)


def described(gcloud, job):
    return yaml.safe_load(gcloud("ai-platform", "jobs", "describe", job).ok().stdout)


def lines(text):
    """What was streamed: (task, trial, message)."""
    return [match.groups()[2:] for match in map(LINE.fullmatch, text.splitlines()) if match]


def table(text):
    """The rows of the trials' table, joined: trial -> (objective, step, hyperparameters)."""
    rows = {}
    for row in text.partition("Training Output Trials")[2].splitlines():
        cells = [cell.strip() for cell in row.split("│")[1:-1]]
        if len(cells) == 4 and cells[0] not in ("TRIAL", ""):
            rows[cells[0]] = (*cells[1:3], [cells[3]])
        elif len(cells) == 4 and cells[0] == "":
            rows[max(rows)][2].append(cells[3])
    return rows


def test_a_package_is_tuned_streamed_summarized_and_listed(gcloud, submit, package):
    done = submit(
        gcloud, "tuned", *package, "--stream-logs", "--job-dir=gs://out-bkt/tuned",
        user_args=["--epochs", "3"],
    )  # fmt: skip
    assert done.code == 0, done.stderr
    assert "state: SUCCEEDED" in done.stdout
    streamed = lines(done.stderr)
    for number in ("1", "2", "3"):
        texts = [message for _, trial, message in streamed if trial == number]
        assert [text for text in texts if text.startswith('told {"epochs": "3", "x": "0.')]
        (say_dir,) = [text for text in texts if '"job-dir"' in text]
        assert f'/out-bkt/tuned/{number}"' in say_dir
        assert texts.count("trained") == 1
    services = [message for task, trial, message in streamed if (task, trial) == ("service", "")]
    assert sum(bool(re.match(r"Trial \d begins with x=", text)) for text in services) == 3
    assert sum(bool(re.match(r"Trial \d succeeded with acc", text)) for text in services) == 3
    output = described(gcloud, "tuned")["trainingOutput"]
    assert output["completedTrialCount"] == "3"
    assert output["isHyperparameterTuningJob"] is True
    assert output["hyperparameterMetricTag"] == "accuracy"
    objectives = [trial["finalMetric"]["objectiveValue"] for trial in output["trials"]]
    assert objectives == sorted(objectives, reverse=True), "the best comes first"
    summary = gcloud("ai-platform", "jobs", "describe", "tuned", "--summarize").ok().stdout
    rows = table(summary)
    assert list(rows) == ["1", "2", "3"]
    for trial in output["trials"]:
        objective, step, values = rows[trial["trialId"]]
        assert float(objective) == pytest.approx(trial["finalMetric"]["objectiveValue"], rel=1e-5)
        assert step == "3"
        assert values == [f"{name}={value}" for name, value in trial["hyperparameters"].items()]
        x = float(trial["hyperparameters"]["x"])
        assert trial["finalMetric"]["objectiveValue"] == pytest.approx(x * 3, rel=1e-5)
        assert trial["hyperparameters"]["batch"] in ("32", "64")
    listed = gcloud("ai-platform", "jobs", "list", "--format", "value(jobId)").ok().stdout
    assert listed.split().count("tuned") == 1
    assert not [job for job in listed.split() if "trial" in job], "trials are in no list"


def test_a_finished_log_is_streamed_by_task(gcloud, server, submit):
    submit(gcloud, "by_task", training=in_image(), maxTrials=2).ok()
    assert ended(server, "by_task")["state"] == "SUCCEEDED"
    done = gcloud(
        "ai-platform", "jobs", "stream-logs", "by_task", "--task-name=master-replica-0",
        "--polling-interval=1",
    )  # fmt: skip
    streamed = lines(done.ok().stdout)
    assert {task for task, _, _ in streamed} == {"master-replica-0"}
    assert {trial for _, trial, _ in streamed} == {"1", "2"}


def test_a_running_study_is_summarized_and_cancelled(gcloud, server, submit):
    submit(gcloud, "stopped", training=in_image("hang")).ok()
    server.wait_for("/v1/projects/demo-proj/jobs/stopped", {"RUNNING"})
    summary = gcloud("ai-platform", "jobs", "describe", "stopped", "--summarize").ok().stdout
    assert set(table(summary)) >= {"1"}
    gcloud("ai-platform", "jobs", "cancel", "stopped").ok()
    job = ended(server, "stopped")
    assert job["state"] == "CANCELLED"
    assert job["errorMessage"]
    assert {trial["state"] for trial in job["trainingOutput"]["trials"]} == {"CANCELLED"}
    assert "completedTrialCount" in described(gcloud, "stopped")["trainingOutput"]
    gcloud("ai-platform", "jobs", "cancel", "stopped").ok()


def test_a_study_without_a_result_fails_and_is_summarized(gcloud, server, submit):
    submit(gcloud, "in_vain", training=in_image("fail"), maxFailedTrials=2).ok()
    job = ended(server, "in_vain")
    assert job["state"] == "FAILED"
    assert "master-replica-0 exited with a non-zero status of 3" in job["errorMessage"]
    summary = gcloud("ai-platform", "jobs", "describe", "in_vain", "--summarize").ok().stdout
    assert [row[:2] for row in table(summary).values()][:2] == [("", ""), ("", "")]


def test_a_study_goes_on_from_an_earlier_one(gcloud, server, submit):
    submit(gcloud, "part_1", training=in_image(), maxTrials=2).ok()
    early = submit(gcloud, "too_early", training=in_image("hang"), resumePreviousJobId="nowhere")
    assert early.code == 1
    assert "trainingInput.hyperparameters.resumePreviousJobId" in early.stderr
    assert "there is no tuning job nowhere" in early.stderr
    before = ended(server, "part_1")["trainingOutput"]["trials"]
    only = {"params": [], "hyperparameterMetricTag": "", "resumePreviousJobId": "part_1"}
    submit(gcloud, "part_2", training=in_image(), maxTrials=2, **only).ok()
    job = ended(server, "part_2")
    assert job["state"] == "SUCCEEDED"
    points = [trial["hyperparameters"] for trial in (*before, *job["trainingOutput"]["trials"])]
    assert len({tuple(sorted(point.items())) for point in points}) == 4
    summary = gcloud("ai-platform", "jobs", "describe", "part_2", "--summarize").ok().stdout
    assert list(table(summary)) == ["3", "4"], "trial ids go on where the earlier study stopped"


def params(*rest):
    return [PARAMS[0], *rest]


P = "trainingInput.hyperparameters"
ANY = {"parameterName": "width", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1.0}
#: What is wrong with the hyperparameters, the field that is named and a part of the sentence.
REFUSED = {
    "bounds reversed": (
        {"params": params({**ANY, "maxValue": 0.01})},
        f"{P}.params[1].minValue", "minValue 0.1 is above maxValue 0.01",
    ),
    "log scale with zero": (
        {"params": params({**ANY, "minValue": 0, "scaleType": "UNIT_LOG_SCALE"})},
        f"{P}.params[1].scaleType", "a logarithmic scale needs numbers above 0",
    ),
    "integer bounds not integral": (
        {"params": params({**ANY, "type": "INTEGER", "minValue": 1, "maxValue": 2.5})},
        f"{P}.params[1].maxValue", "maxValue 2.5 is not a whole number",
    ),
    "1,001 discrete values": (
        {"params": params({"parameterName": "d", "type": "DISCRETE",
                           "discreteValues": list(range(1001))})},
        f"{P}.params[1].discreteValues", "1001 discrete values are too many",
    ),
    "duplicate ids": (
        {"params": params(PARAMS[0])},
        f"{P}.params[1].parameterName", "parameter x: the name is given twice",
    ),
    "grid search over a double": (
        {"algorithm": "GRID_SEARCH"},
        f"{P}.params[0].type", "GRID_SEARCH takes no DOUBLE parameter",
    ),
    "an algorithm that is not there": (
        {"algorithm": "POPULATION_BASED_TRAINING"}, f"{P}.algorithm", "POPULATION_BASED_TRAINING",
    ),
    "a metric that hypertune loses": (
        {"hyperparameterMetricTag": "trial"},
        f"{P}.hyperparameterMetricTag", "reports of metrics have a key of that name already",
    ),
    "more parallel than total trials": (
        {"maxTrials": 2, "maxParallelTrials": 3},
        f"{P}.maxParallelTrials", "maxParallelTrials is 3, which is more than maxTrials, 2",
    ),
    "no type": ({"params": [{"parameterName": "x"}]}, f"{P}.params[0].type", "must have a type"),
    "a word that is misspelt": ({"goal": "MAXIMISE"}, f"{P}.goal", "MAXIMISE"),
    "a field that is not there": ({"maxTrialsX": 3}, f"{P}.maxTrialsX", "maxTrialsX"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_field_and_starts_nothing(gcloud, submit, case):
    spec, field, sentence = REFUSED[case]
    done = submit(gcloud, "refused_study", training=in_image(), **spec)
    assert done.code == 1
    assert "INVALID_ARGUMENT" in done.stderr
    message = " ".join(done.stderr.split())
    assert f"field: {field} " in f"{message} "
    assert sentence in message
    assert "NOT_FOUND" in gcloud("ai-platform", "jobs", "describe", "refused_study").stderr
