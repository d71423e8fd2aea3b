"""``trainshed plan achieved``: jobs that ran, beside what was predicted of them."""

import json
import re
import time

import pytest

from cli.conftest import FINAL, PARENT
from cli.standin import StandIn
from cli.test_examples import calibration_text
from trainshed.planning.scaling.calibration import RunKind
from trainshed.planning.scaling.calibration_file import read

DATA = {
    "steps": 6000,
    "step_s": 0.0101,
    "step_s_p10": 0.01,
    "step_s_p90": 0.0102,
    "samples_per_s": 0.0,
    "wait_share": 0.0,
    "goodput": 0.93,
}
#: The server looks for jobs that have ended every few seconds.
WAIT_S_MAX = 120
TRAINER = """
import time
from trainshed_trainer import progress
for step in range(40):
    time.sleep(0.01)
    progress(step=step)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "calibration.toml"
    path.write_text(calibration_text())
    return path


@pytest.fixture
def achieved(trainshed, file):
    """Runs the command beside a server that knows what is told of some jobs."""

    documents = {}

    def run(*words, **jobs):
        pages = {name: [{"seq": 1, "kind": "STEPS", "data": data}] for name, data in jobs.items()}

        def answer(_verb, path, _document):
            *_, job, last = path.split("/")
            if last == "events":
                return 200, {"events": pages.pop(job, [])}
            if path.startswith("/v1/"):
                return 200, documents[last]
            name = f"projects/p/jobs/{last}"
            fields = {"name": name} if last in documents else {}
            replicas = run.replicas
            return 200, {**fields, "replicas": replicas, "endTime": "2026-11-24T01:02:03Z"}

        with StandIn(answer) as server:
            place = ("--url", server.url, "--project", "p", "--format", "json")
            return trainshed("plan", "achieved", *words, "--calibration", file, *place)

    run.documents = documents
    run.replicas = [{"role": "primary", "node": "n1"}]
    return run


def of_module(module, machine="n1-standard-4"):
    """A job of a server that runs a module."""
    training_input = {"scaleTier": "CUSTOM", "masterType": machine, "pythonModule": module}
    return {"jobId": "j", "trainingInput": {**training_input, "region": "us-central1"}}


@pytest.mark.parametrize(
    ("head", "job", "says"),
    [
        ({"model": "trainer.task"}, (of_module("other.module"), {}), "the job runs other.module"),
        (
            {"stack": "torch 2.6"},
            (of_module("a.b"), {"stack": "tensorflow 2.15"}),
            "ran tensorflow",
        ),
        (
            {"machine_type": "n1-standard-4"},
            (of_module("a.b", "n1-standard-8"), {}),
            "n1-standard-8",
        ),
    ],
)
def test_a_job_of_another_training_teaches_a_calibration_nothing(achieved, file, head, job, says):
    text, (document, ran) = file.read_text(), job
    for name, value in head.items():
        text = re.sub(rf'^{name} = ".*"$', f'{name} = "{value}"', text, flags=re.MULTILINE)
    file.write_text(text)
    achieved.documents["j1"] = document
    run = achieved("j1", "--update", j1={**DATA, **ran})
    assert run.code == 2, run.out
    assert says in run.err
    assert file.read_text() == text


def test_a_job_of_the_same_module_teaches(achieved, file):
    text = file.read_text()
    file.write_text(re.sub('^model = ".*"$', 'model = "task.py"', text, flags=re.MULTILINE))
    achieved.documents["j1"] = of_module("trainer.task", "")
    assert achieved("j1", "--update", j1=DATA).code == 0


@pytest.mark.parametrize(
    ("node", "says"), [("n1", "ran on 1 machine"), ("", "ran on machines that are not known")]
)
def test_hosts_that_shared_a_machine_teach_a_calibration_nothing(achieved, file, node, says):
    before = file.read_text()
    achieved.replicas.append({"role": "worker", "node": node})
    run = achieved("j1", "--update", j1=DATA)
    assert run.code == 2, run.out
    assert f"j1: its 2 hosts {says}" in run.err
    assert file.read_text() == before


def test_hosts_of_their_own_teach_that_they_were(achieved, file):
    achieved.replicas.append({"role": "worker", "node": "n2"})
    assert achieved("j1", "--update", j1=DATA).code == 0
    (run,) = read(file.read_text()).of(RunKind.JOB)
    assert (run.hosts, run.machines) == (2, 2)


def test_one_job_without_a_prediction_hides_no_other(achieved):
    run = achieved("silent", "good", good=DATA)
    assert run.code == 0, run.err
    silent, good = json.loads(run.out)
    assert "reported no steps" in silent["reason"]
    assert good["inside"]
    none = achieved("silent")
    assert none.code == 3
    assert "silent: no prediction: the job reported no steps" in none.err


def test_jobs_are_compared_and_counted(achieved):
    run = achieved("good", "slow", good=DATA, slow={**DATA, "step_s": 0.05})
    assert run.code == 0, run.err
    assert [outcome["inside"] for outcome in json.loads(run.out)] == [True, False]


def test_the_calibration_learns_where_that_is_asked(achieved, file):
    before = file.read_text()
    assert achieved("slow", slow={**DATA, "step_s": 0.05}).code == 0
    assert file.read_text() == before
    assert achieved("slow", "--update", slow={**DATA, "step_s": 0.05}).code == 0
    (run,) = read(file.read_text()).of(RunKind.JOB)
    assert (run.step_s, run.date) == (0.05, "2026-11-24")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("silent",), "silent: the job reported no steps"),
        (("good", "--gpus", "0"), "--gpus must be at least 1, one for each host of the job, got 0"),
        (("good", "--gpus", "1000000"), "(accepted: "),
    ],
)
def test_what_cannot_be_compared_is_a_sentence_and_changes_nothing(achieved, file, words, says):
    before = file.read_text()
    run = achieved(*words, "--update", good=DATA)
    assert run.code == 2
    assert says in run.err
    assert file.read_text() == before


def started(server, *words, trainer=TRAINER):
    """A job whose trainer calls progress."""
    container = {"imageUri": "registry.test/a", "command": ["python", "-c", trainer], "args": words}
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
    spec = {"workerPoolSpecs": [{**pool, "containerSpec": container}]}
    status, job = server.call(
        "POST", f"/v1/{PARENT}/customJobs", {"displayName": "steps", "jobSpec": spec}
    )
    assert status == 200, job
    return job["name"]


def ended(server, *words, trainer=TRAINER):
    """The same when it is over."""
    name = started(server, *words, trainer=trainer)
    server.wait_for(f"/v1/{name}", FINAL)
    return name


def test_a_trainer_that_calls_progress_is_compared(server, client, file):
    run = client("plan", "achieved", ended(server), "--calibration", file)
    assert run.code == 0, run.err
    assert "40 steps: predicted" in run.out or "39 steps: predicted" in run.out


def test_the_second_job_of_a_trainer_is_predicted_by_the_server(server, client):
    ended(server)
    await_line(client, "plan", "calibrations")
    job = ended(server)
    output = await_line(client, "plan", "achieved", job)
    assert "steps: predicted" in output
    assert "inside" in output or "a miss" in output
    outcomes = json.loads(client("plan", "score", "--format", "json").out)
    assert job.rpartition("/")[2] in {outcome["job"] for outcome in outcomes}
    [learned, *_] = json.loads(client("plan", "calibrations", "--format", "json").out)
    assert read(client("plan", "calibrations", learned["key"]).out).of(RunKind.JOB)
    assert "steps: predicted" in client("jobs", "explain", job).out


#: Waits for its input in most of its time; with an argument it does not end.
STARVED = """
import sys, time
from trainshed_trainer.steps import step_times
for step in range(40):
    time.sleep(0.01)
    step_times().note(waited_s=0.009)
step_times().write()
time.sleep(1000 * len(sys.argv[1:]))
"""


def test_a_job_hears_at_its_start_that_it_will_wait_for_its_input(server, client):
    ended(server, trainer=STARVED)
    await_line(client, "plan", "calibrations")
    job = started(server, "long", trainer=STARVED)
    output = await_line(client, "jobs", "events", job, having="predicted to wait for its input")
    assert "loader workers" in output
    assert client("ai", "custom-jobs", "cancel", job).code == 0
    server.wait_for(f"/v1/{job}", FINAL)
    lines = client("ai", "custom-jobs", "stream-logs", job).out
    assert lines.count("predicted to wait for its input") == 1


def test_trials_of_a_study_teach_as_jobs_do(server, client):
    before = keys(client)
    container = {
        "imageUri": "registry.test/a",
        "command": ["python", "-c", TRAINER + "print('a trial')"],
    }
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
    study = {
        "displayName": "steps",
        "maxTrialCount": 3,
        "parallelTrialCount": 1,
        "maxFailedTrialCount": 3,
        "studySpec": {
            "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
            "parameters": [
                {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.1, "maxValue": 0.2}}
            ],
        },
        "trialJobSpec": {"workerPoolSpecs": [{**pool, "containerSpec": container}]},
    }
    status, job = server.call("POST", f"/v1/{PARENT}/hyperparameterTuningJobs", study)
    assert status == 200, job
    server.wait_for(f"/v1/{job['name']}", {"JOB_STATE_RUNNING"})
    run = client("ai", "hp-tuning-jobs", "describe", job["name"])
    assert "of 3 trials were made" in run.out + run.err or "about to be made" in run.err
    server.wait_for(f"/v1/{job['name']}", FINAL)
    until = time.monotonic() + WAIT_S_MAX
    while 3 not in (new := learned_jobs(client, before)) and time.monotonic() < until:
        time.sleep(0.2)
    assert 3 in new


def keys(client):
    return {row["key"] for row in client("plan", "calibrations", "--format", "json").json}


def learned_jobs(client, before):
    """How many jobs have taught each new calibration."""
    calibrations = client("plan", "calibrations", "--format", "json").json
    return [calibration["jobs"] for calibration in calibrations if calibration["key"] not in before]


def test_a_key_that_is_none_is_a_sentence(client):
    run = client("plan", "calibrations", "none")
    assert run.code == 2
    assert "has no calibration none; list them with: trainshed plan calibrations" in run.err


def await_line(client, *words, having=""):
    """What a command prints when the server has learned of a job's end, or has made its note."""
    until = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < until:
        run = client(*words)
        if run.code == 0 and having in run.out and run.out.count("\n") > ("calibrations" in words):
            return run.out
        time.sleep(0.2)
    raise AssertionError(run.out + run.err)
