"""``trainshed plan history``: what jobs measured, and jobs that ran beside their predictions."""

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
}
GOODPUT = 0.93
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
            if last == "goodput":
                return 200, {"goodput": GOODPUT}
            if path.startswith("/v1/"):
                return 200, documents[last]
            name = f"projects/p/jobs/{last}"
            fields = {"name": name} if last in documents else {}
            replicas = run.replicas
            return 200, {**fields, "replicas": replicas, "endTime": "2026-11-24T01:02:03Z"}

        with StandIn(answer) as server:
            place = ("--url", server.url, "--project", "p", "--format", "json")
            return trainshed("plan", "history", *words, "--calibration", file, *place)

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


def test_a_primary_without_gpus_is_no_host_of_the_run(achieved, file):
    workers = {"workerType": "n1-standard-4", "workerCount": "2"}
    gpus = {"workerConfig": {"acceleratorConfig": {"type": "NVIDIA_TESLA_V100", "count": "1"}}}
    document = of_module("trainer.task", "n1-standard-8")
    document["trainingInput"] |= {**workers, **gpus}
    achieved.documents["j1"] = document
    achieved.replicas[:] = [
        {"role": "primary", "node": "n1"},
        {"role": "worker", "node": "n1"},
        {"role": "worker", "node": "n2"},
    ]
    text = file.read_text().replace('accelerator = "CPU"', 'accelerator = "NVIDIA_TESLA_V100"')
    file.write_text(re.sub('^model = ".*"$', 'model = "task.py"', text, flags=re.MULTILINE))
    run = achieved("j1", "--update", j1=DATA)
    assert run.code == 0, run.err
    (run,) = read(file.read_text()).of(RunKind.JOB)
    assert (run.hosts, run.accelerators, run.machines) == (2, 2, 2)


def test_one_job_without_a_prediction_hides_no_other(achieved):
    run = achieved("silent", "good", good=DATA)
    assert run.code == 0, run.err
    silent, good = run.json["jobs"]
    assert "reported no steps" in silent["reason"]
    assert good["inside"]
    none = achieved("silent")
    assert none.code == 3
    assert "silent: no prediction: the job reported no steps" in none.err


@pytest.mark.parametrize(
    ("summary", "says"),
    [
        ({"state": "RUNNING"}, "not scored yet: the job is RUNNING"),
        ({"state": "SUCCEEDED", "isUnscored": True}, "not scored yet; in some seconds: trainshed"),
        (
            {"state": "FAILED", "replicas": 2 * [{"role": "worker", "node": "n1"}]},
            "its 2 hosts ran on 1 machine",
        ),
        ({"state": "SUCCEEDED"}, "the server predicts only after an earlier job"),
    ],
)
def test_a_job_without_a_score_hears_whether_one_will_come(trainshed, summary, says):
    answer = {"replicas": [{"role": "primary", "node": "n1"}], **summary}
    with StandIn(lambda *_: (200, answer)) as server:
        run = trainshed("plan", "history", "j1", "--url", server.url, "--project", "p")
    assert run.code == 3, run.out
    assert f"j1: no prediction: {says}" in run.err


def test_a_trial_without_a_document_of_its_own_hears_why_it_has_no_score(trainshed):
    name = "projects/p/jobs/tune/trials/3"
    replicas = 2 * [{"role": "worker", "node": "n1"}]
    view = {"name": name, "state": "FAILED", "replicas": replicas}
    refusal = {"error": {"code": 404, "status": "NOT_FOUND", "message": f"{name} does not exist"}}

    def answer(_verb, path, _document):
        return (404, refusal) if path.startswith("/v1/") else (200, view)

    with StandIn(answer) as server:
        run = trainshed("plan", "history", "7", "--url", server.url, "--project", "p")
    assert run.code == 3, run.err
    assert "its 2 hosts ran on 1 machine" in run.err


def test_jobs_are_compared_and_counted(achieved):
    run = achieved("good", "slow", good=DATA, slow={**DATA, "step_s": 0.05})
    assert run.code == 0, run.err
    assert [outcome["inside"] for outcome in run.json["jobs"]] == [True, False]


def test_the_calibration_learns_where_that_is_asked(achieved, file):
    before = file.read_text()
    assert achieved("slow", slow={**DATA, "step_s": 0.05}).code == 0
    assert file.read_text() == before
    slow = {**DATA, "step_s": 0.05, "micro_batches": 4}
    assert achieved("slow", "--update", slow=slow).code == 0
    (run,) = read(file.read_text()).of(RunKind.JOB)
    assert (run.step_s, run.micro_batches, run.date) == (0.05, 4, "2026-11-24")


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
    ended(server)
    run = client("plan", "history", "steps", "--calibration", file)  # by its display name
    assert run.code == 0, run.err
    assert "40 steps: predicted" in run.out or "39 steps: predicted" in run.out


def test_the_second_job_of_a_trainer_is_predicted_by_the_server(server, client):
    ended(server)
    await_line(client, "plan", "history", having="CALIBRATION")
    job = ended(server)
    output = await_line(client, "plan", "history", job)
    assert "steps: predicted" in output
    assert "inside" in output or "a miss" in output
    run = client("plan", "history", "--format", "json")
    assert run.code == 0, run.err
    history = run.json
    assert job.rpartition("/")[2] in {outcome["job"] for outcome in history["jobs"]}
    [learned, *_] = history["calibrations"]
    assert read(client("plan", "history", "--print", learned["key"]).out).of(RunKind.JOB)
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
    await_line(client, "plan", "history", having="CALIBRATION")
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
    history = client("plan", "history", "--format", "json").json
    return {row["key"] for row in history["calibrations"]}


def learned_jobs(client, before):
    """How many jobs have taught each new calibration."""
    calibrations = client("plan", "history", "--format", "json").json["calibrations"]
    return [calibration["jobs"] for calibration in calibrations if calibration["key"] not in before]


def await_line(client, *words, having=""):
    """What a command prints when the server has learned of a job's end, or has made its note."""
    until = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < until:
        run = client(*words)
        if run.code == 0 and having in run.out:
            return run.out
        time.sleep(0.2)
    raise AssertionError(run.out + run.err)


HEAD = {
    "key": "k1",
    "jobs": 3,
    "updateTime": "2026-11-24T01:02:03Z",
    "model": "trainer.task",
    "machineType": "n1-standard-8",
    "accelerator": "CPU",
}
PATH = "/trainshed/v1/projects/p"
JOBS = [
    {
        "job": name,
        "hosts": hosts,
        "steps": 6000,
        "predictedSeconds": [2000.0, 2400.0, 3000.0],
        "tookSeconds": took_s,
        "inside": took_s < 3000,
        "class": "hosts from hosts" if hosts > 1 else "between measured counts",
        "sentence": f"{name} ran",
        **extra,
    }
    for name, hosts, took_s, extra in (
        ("a", 1, 2600.0, {}),
        ("b", 2, 3600.0, {"goodput": 0.93, "cost": 3.12, "currency": "USD"}),
        ("c", 2, 2500.0, {}),
    )
]


@pytest.fixture
def history(trainshed):
    """Runs the command beside a server with one calibration and three jobs on two pages."""

    def run(*words):
        left = [{"outcomes": JOBS[:2], "nextPageToken": "t"}, {"outcomes": JOBS[2:]}]

        def answer(_verb, path, _document):
            if path == f"{PATH}/outcomes":
                return 200, left.pop(0)
            answers = {
                f"{PATH}/calibrations": {"calibrations": [HEAD]},
                f"{PATH}/calibrations/k1": {**HEAD, "document": "schema = 1\n"},
            }
            none = {"error": {"code": 404, "message": "no", "status": "NOT_FOUND"}}
            return (200, answers[path]) if path in answers else (404, none)

        with StandIn(answer) as server:
            return trainshed("plan", "history", *words, "--url", server.url, "--project", "p")

    return run


def test_the_history_is_the_calibrations_and_the_jobs_with_their_score(history):
    run = history()
    assert run.code == 0, run.err
    lines = [" ".join(line.split()) for line in run.out.splitlines()]
    assert lines[2] == "k1 3 2026-11-24 01:02:03 trainer.task n1-standard-8 CPU"
    assert lines[4] == "JOB HOSTS STEPS PREDICTED TOOK INSIDE GOODPUT COST"
    assert lines[7] == "b 2 6,000 40.0 min [33.3 to 50.0] 60.0 min no 0.93 3.12 USD"
    assert lines[-3:] == [
        "2 of 3 jobs inside their 80 % intervals.",
        "between measured counts: 1 of 1",
        "hosts from hosts: 1 of 2",
    ]


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (("--filter", "inside=false"), ["b"]),
        (("--filter", "hosts>1 NOT job=b"), ["c"]),
        (("--sort-by", "~tookSeconds"), ["b", "a", "c"]),
        (("--limit", "2"), ["a", "b"]),
    ],
)
def test_jobs_are_filtered_sorted_and_limited(history, words, jobs):
    document = history(*words, "--format", "json").json
    assert [job["job"] for job in document["jobs"]] == jobs
    calibrations = [] if "--filter" in words else [{**HEAD, "document": "schema = 1\n"}]
    assert document["calibrations"] == calibrations
    text = history(*words)
    assert ("2 of 3 jobs; --limit 3 shows all." in text.out) is ("--limit" in words)


def test_one_calibration_is_printed_as_a_file(history):
    run = history("--print", "k1")
    assert (run.code, run.out.rstrip()) == (0, "schema = 1")
    none = history("--print", "a/b")
    assert none.code == 2
    assert "has no calibration a/b; list them with: trainshed plan history --url=" in none.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--calibration", "calibration.toml"), "--calibration FILE needs a JOB"),
        (("j1", "--limit", "3"), "are for the list, without a JOB"),
        (("j1", "--update"), "--update needs --calibration FILE"),
        (("j1", "--gpus", "3"), "--gpus needs --calibration FILE"),
        (("--filter", "inside"), "--filter: cannot read 'inside'"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(history, words, says):
    run = history(*words)
    assert (run.code, says in run.err) == (2, True), run.err
