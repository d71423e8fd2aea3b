"""Lists, logs, cancels and describes jobs of all kinds, by whatever name they have."""

import json
import re
import sys

import pytest
import yaml

from cli.conftest import FINAL, PARENT, end_jobs, pool
from cli.terminal_process import Terminal

WAIT = "import time; print('begins', flush=True); time.sleep(600)"
DEFINITION = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
STUDY = {
    "displayName": "study",
    "maxTrialCount": 1,
    "parallelTrialCount": 1,
    "studySpec": {
        "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
        "parameters": [{"parameterId": "lr", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1}}],
    },
    "trialJobSpec": {"workerPoolSpecs": [pool("print('a trial')")]},
}


@pytest.fixture(scope="module")
def jobs(server):
    """One job of each kind, and two of one name; all but one have ended. Full names."""

    def create(path, document):
        status, resource = server.call("POST", f"/v1/{path}", document)
        assert status == 200, resource
        return resource

    def custom(name, code):
        spec = {"workerPoolSpecs": [pool(code)]}
        document = {"displayName": name, "jobSpec": spec, "labels": {"team": name}}
        return create(f"{PARENT}/customJobs", document)["name"]

    training_input = {"region": "us-central1", "runtimeVersion": "2.11", "pythonModule": "m",
             "packageUris": ["gs://staging/none.whl"], "pythonVersion": "3.7"}  # fmt: skip
    create("projects/local/jobs", {"jobId": "census_1", "trainingInput": training_input})
    names = {
        "census_1": "projects/local/jobs/census_1",
        "fails": custom("fails", "print('said'); raise SystemExit(5)"),
        "twin": custom("twin", "print('first')"),
        "other twin": custom("twin", "print('second')"),
        "study": create(f"{PARENT}/hyperparameterTuningJobs", STUDY)["name"],
        "piped": create(
            f"{PARENT}/trainingPipelines",
            {
                "displayName": "piped",
                "trainingTaskDefinition": DEFINITION,
                "trainingTaskInputs": {"worker_pool_specs": [pool("print('in a pipe')")]},
            },
        )["name"],
        "runs": custom("runs", WAIT),
    }
    for name, full_name in names.items():
        states = {"JOB_STATE_RUNNING"} if name == "runs" else FINAL
        server.wait_for(f"/v1/{full_name}", states)
    yield names
    end_jobs(server)


def list_names(client, *flags):
    return client("jobs", "list", "--format", "value(displayName)", *flags).out.split()


def number_of(name):
    return name.rpartition("/")[2]


def test_jobs_of_all_kinds_are_one_list_the_newest_first(client, jobs):
    run = client("jobs", "list")
    head, _, *rows = run.out.splitlines()
    assert re.split(r"  +", head) == [
        "NAME", "KIND", "STATE", "START", "DURATION", "USER", "NODE", "ID",
    ]  # fmt: skip
    assert [re.split(r"  +", row)[:3] for row in rows] == [
        ["runs", "custom", "RUNNING"],
        ["piped", "pipeline", "SUCCEEDED"],
        ["study", "tuning", rows[2].split()[2]],
        ["twin", "custom", "SUCCEEDED"],
        ["twin", "custom", "SUCCEEDED"],
        ["fails", "custom", "FAILED"],
        ["census_1", "ai-platform", "FAILED"],
    ]
    runs = re.split(r"  +", rows[0])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", runs[3])
    assert re.fullmatch(r"(\d+m )?\d+s", runs[4])
    assert runs[5]
    assert runs[6]
    assert runs[7] == number_of(jobs["runs"])


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--state", "running"], ["runs"]),
        (["--state", "restarting"], []),
        (["--state", "RUNNING,JOB_STATE_FAILED", "--kind", "custom"], ["runs", "fails"]),
        (["--kind", "pipeline"], ["piped"]),
        (["--label", "team:fails"], ["fails"]),
        (["--limit", "2"], ["runs", "piped"]),
        (["--page-size", "2", "--limit", "3"], ["runs", "piped", "study"]),
        (["--filter", "displayName:twin"], ["twin", "twin"]),
        (["--sort-by", "displayName", "--limit", "2"], ["census_1", "fails"]),
        (["--since", "1h", "--limit", "1"], ["runs"]),
        (["--since", "2100-01-01"], []),
        (["--user", "a-stranger"], []),
        (["--project", "empty"], []),
        (["--project", "empty", "--all-projects", "--limit", "1"], ["runs"]),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_a_list_is_filtered(client, flags, expected):
    assert list_names(client, *flags) == expected


@pytest.mark.usefixtures("jobs")
def test_trials_are_listed_for_whoever_asks_for_them(client):
    [trial] = client("jobs", "list", "--kind", "trial", "--format", "json").json
    assert trial["kind"] == "TRIAL"


@pytest.mark.usefixtures("jobs")
def test_formats_are_those_of_gcloud(client):
    def list_jobs(form, *flags):
        return client("jobs", "list", "--limit", "1", "--format", form, *flags).out

    name = json.loads(list_jobs("json"))[0]["name"]
    assert list_jobs("value(name.basename(),state)") == f"{number_of(name)}\tRUNNING\n"
    assert list_jobs("csv(displayName,createTime:label=made,missing)").splitlines()[0] == (
        "display_name,made,missing"
    )
    assert list_jobs("csv[no-heading](displayName,state,missing)") == "runs,RUNNING,\n"
    assert list_jobs("table(displayName,state)").split() == [
        "DISPLAY_NAME", "STATE", "────────────", "───────", "runs", "RUNNING",
    ]  # fmt: skip
    assert json.loads(list_jobs("json(displayName,gpus)")) == [{"displayName": "runs", "gpus": {}}]
    assert yaml.safe_load(list_jobs("yaml"))["displayName"] == "runs"
    run = client("jobs", "list", "--format", "value(name.scope())")
    assert run.code == 2
    assert "cannot read the key 'name.scope()'" in run.err


def test_projections_work_where_gcloud_scripts_use_them(client, jobs):
    ids = client("ai-platform", "jobs", "list", "--format=value(jobId)").out.split()
    assert "census_1" in ids
    described = client("ai", "custom-jobs", "describe", jobs["fails"], "--format=value(state)")
    assert described.out == "JOB_STATE_FAILED\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--state", "lost"], "must be one or more of queued, pending, running"),
        (["--since", "yesterday"], "must be a duration such as 24h"),
        (["--kind", "job"], "invalid choice: 'job'"),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_a_filter_that_means_nothing_is_refused(client, flags, message):
    run = client("jobs", "list", *flags)
    assert run.code == 2
    assert message in run.err


def test_an_empty_list_is_told_beside_the_answer(client):
    run = client("jobs", "list", "--project", "empty")
    assert (run.out, run.err) == (
        "",
        "trainshed: project empty has no job; other projects: --all-projects\n",
    )


@pytest.mark.parametrize("way", ["full", "number", "display name", "of a project"])
def test_logs_of_a_job_are_found_by_whatever_it_is_called(client, jobs, way):
    names = {
        "full": jobs["fails"],
        "number": number_of(jobs["fails"]),
        "of a project": f"local/{number_of(jobs['fails'])}",
    }
    name = names.get(way, "fails")
    run = client("jobs", "logs", name)
    assert run.code == 0, run.err
    assert re.search(r"^INFO .*workerpool0-0 +│ said$", run.out, re.MULTILINE)
    last = client("jobs", "logs", name, "--tail", "1", "--format", "json")
    assert len(last.out.splitlines()) == 1
    followed = client("jobs", "logs", name, "--follow", "--task-name", "workerpool0-0")
    assert "│ said" in followed.out


def test_logs_of_a_pipeline_of_an_ml_job_and_of_a_trial(client, jobs):
    for name in ("piped", number_of(jobs["piped"]), jobs["piped"]):
        assert "│ in a pipe" in client("jobs", "logs", name).out
    assert client("logs", "census_1").code == 0
    for words in (["study/trials/1"], ["study", "--trial", "1"]):
        assert "│ a trial" in client("jobs", "logs", *words).out


@pytest.mark.usefixtures("jobs")
def test_a_trial_is_named_as_the_list_of_trials_names_it(client):
    name = list_names(client, "--kind", "trial")[-1]
    assert "│ a trial" in client("jobs", "logs", name).out


def test_logs_of_a_job_that_runs_are_what_it_has_written(client, jobs):
    assert "│ begins" in client("jobs", "logs", "runs").out
    assert jobs["runs"]


def test_a_name_that_several_jobs_have_is_refused_with_their_ids(client, jobs):
    run = client("jobs", "logs", "twin")
    assert run.code == 2
    assert "2 jobs are called 'twin'" in run.err
    for name in ("twin", "other twin"):
        assert number_of(jobs[name]) in run.err


@pytest.mark.parametrize(
    "words",
    [["logs"], ["describe"], ["cancel"], ["explain"], ["events"], ["watch"]],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("jobs")
def test_an_unknown_job_is_told_with_the_names_most_like_it(client, words):
    run = client("jobs", *words, "cencus_1")
    assert run.code == 1
    assert "did you mean census_1? " in run.err
    assert "trainshed jobs list" in run.err
    assert "did you mean" not in client("jobs", *words, "qqqqq").err


@pytest.mark.usefixtures("jobs")
def test_a_text_that_is_no_name_is_told_what_names_look_like(client):
    run = client("jobs", "logs", "locations/L/customJobs/7")
    assert run.code == 2
    assert "JOB must be an id or a full name such as P/J, projects/P/jobs/J" in run.err


def test_describe_shows_a_job_at_a_glance(client, jobs):
    text = client("jobs", "describe", "fails").out
    assert re.search(rf"^full name +{jobs['fails']}$", text, re.MULTILINE)
    for pattern in (
        r"^kind +custom job$",
        r"^state +FAILED$",
        r"^duration +\d",
        r"^error +.*non-zero status of 5",
        r"^pool 0 +1 +n1-standard-4$",
        r"^workerpool0-0 +FAILED +\S+ +5$",
    ):
        assert re.search(pattern, text, re.MULTILINE), text
    job = client("describe", jobs["fails"], "--format", "json").json
    assert (job["state"], job["resource"]["state"]) == ("FAILED", "JOB_STATE_FAILED")
    value = client("jobs", "describe", "fails", "--format", "value(state,resource.displayName)")
    assert value.out == "FAILED\tfails\n"


@pytest.mark.usefixtures("jobs")
def test_describe_shows_a_trial(client):
    assert re.search(r"^number +1$", client("jobs", "describe", "study/trials/1").out, re.MULTILINE)
    none = client("jobs", "describe", "study/trials/7")
    assert none.code == 1
    assert "has no trial 7 (accepted: 1 to 1)" in none.err
    assert (
        "has no trials; name the job without /trials/1"
        in client("jobs", "describe", "fails/trials/1").err
    )


def test_cancel_ends_what_can_be_ended_and_says_what_cannot(client, created, server):
    first, second = created(WAIT), created(WAIT)
    run = client("stop", first, "not-there", number_of(second))
    assert run.code == 1
    assert "not-there" in run.err
    assert [line.rpartition(": ")[0] for line in run.out.splitlines()] == [first, second]
    for name in (first, second):
        assert server.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_CANCELLED"
    again = client("jobs", "cancel", first, "--format", "json")
    assert again.json == [{"name": first, "state": "CANCELLED"}]


def test_resume_says_which_jobs_are_not_held(client, created, server):
    name = created(WAIT)
    run = client("jobs", "resume", name, "not-there")
    assert (run.code, run.out) == (1, "")
    assert "not-there" in run.err
    assert "this server does not hold it: only a job whose " in run.err
    assert client("stop", name).code == 0
    assert server.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_CANCELLED"


@pytest.mark.usefixtures("jobs")
def test_a_trial_is_not_cancelled_alone(client):
    run = client("jobs", "cancel", "study/trials/1")
    assert run.code == 1
    assert "cancel its tuning job: projects/local/locations" in run.err


def on_terminal(argv, environ, columns=160):
    with Terminal(argv, env=environ, columns=columns) as terminal:
        terminal.wait()
        return terminal.text


COMMAND = [sys.executable, "-m", "trainshed.cli.main"]
RED = "\x1b[1;31mFAILED"


@pytest.mark.usefixtures("jobs")
def test_states_have_colours_on_a_terminal_and_nowhere_else(client, environ):
    for words in (["jobs", "list"], ["jobs", "describe", "fails"], ["ai", "custom-jobs", "list"]):
        assert "\x1b" not in client(*words).out
        assert RED in on_terminal([*COMMAND, *words], environ)
    assert "\x1b" not in on_terminal([*COMMAND, "jobs", "list"], {**environ, "NO_COLOR": "1"})


@pytest.mark.usefixtures("jobs")
def test_a_narrow_terminal_shows_no_ids_where_names_are_enough(environ):
    words = [*COMMAND, "jobs", "list", "--kind"]
    assert " ID" not in on_terminal([*words, "pipeline"], environ, columns=80).splitlines()[0]
    assert " ID" in on_terminal([*words, "custom"], environ, columns=80).splitlines()[0]
    assert " ID" in on_terminal([*words, "pipeline"], environ, columns=160).splitlines()[0]


@pytest.mark.parametrize("verb", ["describe", "report", "watch", "stream-logs"])
def test_verbs_of_tuning_jobs_take_a_display_name(client, jobs, verb, tmp_path):
    more = ["--out", str(tmp_path / "r")] if verb == "report" else []
    run = client("ai", "hp-tuning-jobs", verb, "study", *more)
    assert run.code in ((0,) if verb != "watch" else (0, 1)), run.err
    assert "error" not in run.err
    assert jobs["study"]


def test_tensorboard_takes_a_display_name(client, jobs):
    run = client("tensorboard", "study", "--dry-run")
    assert f"{jobs['study']} was submitted without a folder for its results" in run.err


def test_a_display_name_of_another_collection_is_not_taken(client, jobs):
    run = client("ai", "hp-tuning-jobs", "describe", "fails")
    assert run.code == 1
    assert "project local has no tuning job fails" in run.err
    assert jobs["fails"]


@pytest.mark.parametrize(
    "words",
    [("jobs", "describe"), ("ai-platform", "jobs", "describe"), ("ai", "custom-jobs", "describe")],
)
def test_a_job_of_another_project_is_told_with_its_project(client, jobs, words):
    name = "fails" if words[0] == "ai" else "census_1"
    run = client(*words, name, "--project", "nowhere")
    assert run.code == 1
    assert "project local has it: --project local" in run.err
    assert jobs[name]
