"""The verbs that look at jobs of both dialects and change what can be changed."""

import json
import time

import pytest
import yaml

from cli.conftest import FINAL, PARENT, end_jobs, pool
from cli.standin import StandIn

POOL = "machine-type=n1-standard-4,container-image-uri=registry.test/a"
WAIT = "import time; time.sleep(600)"
LABELS = {"team": "vision", "draft": "yes"}


@pytest.fixture(scope="module")
def ml_jobs(server):
    """Three jobs that have ended; each names a package that is not there."""
    assert server.call("POST", "/storage/v1/b?project=listed", {"name": "listed"})[0] == 200
    for name in ("census_1", "census_2", "other"):
        training_input = {"region": "us-central1", "runtimeVersion": "2.11", "pythonModule": "m",
                 "packageUris": ["gs://listed/none.whl"], "pythonVersion": "3.7"}  # fmt: skip
        document = {"jobId": name, "trainingInput": training_input, "labels": LABELS}
        status, job = server.call("POST", "/v1/projects/listed/jobs", document)
        assert status == 200, job
    for name in ("census_1", "census_2", "other"):
        server.wait_for(f"/v1/projects/listed/jobs/{name}", FINAL)


@pytest.fixture
def jobs(client, ml_jobs):  # noqa: ARG001  # they are there
    return lambda *words: client("ai-platform", "jobs", *words, "--project", "listed")


def ids(run):
    return [row["jobId"] for row in run.json]


def test_list_shows_the_newest_first_as_a_table_and_as_json(jobs):
    rows = [line.split() for line in jobs("list").out.splitlines()]
    assert rows[0] == ["ID", "STATE", "CREATED"]
    assert [row[:2] for row in rows[2:]] == [
        ["other", "FAILED"], ["census_2", "FAILED"], ["census_1", "FAILED"],
    ]  # fmt: skip
    assert ids(jobs("list", "--format", "json")) == ["other", "census_2", "census_1"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--filter", "jobId:census*"], ["census_2", "census_1"]),
        (["--filter", "jobId=other"], ["other"]),
        (["--filter", "state=SUCCEEDED"], []),
        (["--filter", "NOT jobId~^census"], ["other"]),
        (["--filter", "labels.team=vision AND jobId!=other", "--limit", "1"], ["census_2"]),
        (["--sort-by", "jobId"], ["census_1", "census_2", "other"]),
        (["--sort-by", "~jobId", "--limit", "2"], ["other", "census_2"]),
        (["--page-size", "1"], ["other", "census_2", "census_1"]),
    ],
)
def test_a_list_is_filtered_sorted_and_cut(jobs, flags, expected):
    assert ids(jobs("list", "--format", "json", *flags)) == expected


def test_an_empty_list_is_told_beside_the_answer(jobs, client):
    run = jobs("list", "--filter", "jobId=none")
    assert (run.code, run.out) == (0, "")
    assert "project listed has no job that matches the filter" in run.err
    run = client("ai", "pipelines", "list", "--region", "europe-west4")
    assert "project local has no pipeline in europe-west4" in run.err
    words = ("ai", "hp-tuning-jobs", "list", "--project", "empty", "--format", "json")
    assert client(*words).json == []


def test_describe_is_yaml_of_every_field_and_json_is_the_resource_itself(jobs, server):
    _, resource = server.call("GET", "/v1/projects/listed/jobs/census_1")
    assert yaml.safe_load(jobs("describe", "census_1").out) == resource
    assert jobs("describe", "census_1", "--format", "json").json == resource
    full = jobs("describe", "projects/listed/jobs/census_1", "--format", "json")
    assert full.json == resource


def test_summaries_show_the_main_figures(client, jobs, created):
    summary = jobs("describe", "census_1", "--summarize").out
    assert "id              census_1\n" in summary
    assert "runtimeVersion  2.11\n" in summary
    name = created("", pool("", 3), wait=FINAL)
    summary = client("ai", "custom-jobs", "describe", name, "--summarize").out
    assert ["pool", "1", "3", "n1-standard-4"] in [line.split() for line in summary.splitlines()]


def test_labels_are_set_removed_and_cleared(jobs):
    changed = jobs("update", "census_2", "--update-labels", "a=b", "--remove-labels", "draft")
    assert changed.out == "labels of census_2: a=b, team=vision\n"
    cleared = jobs("update", "census_2", "--clear-labels", "--format", "json")
    assert "labels" not in cleared.json
    assert jobs("update", "census_2").code == 2


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("ai-platform", "jobs", "describe", "nope"), 1, "error: NOT_FOUND: "),
        (("ai-platform", "jobs", "cancel", "a/b"), 2, "projects/P/jobs/J"),
        (("ai", "custom-jobs", "describe", "projects/p/jobs/1"), 2, "customJobs/C"),
        (("ai-platform", "jobs", "list", "--filter", "a=1 OR b=2"), 2, "cannot read 'OR b=2'"),
        (("ai-platform", "jobs", "list", "--filter", "a~'('"), 2, "must be a regular expression"),
        (("ai-platform", "jobs", "list", "--limit", "0"), 2, "must be a whole number from 1"),
        (("jobs", "explain", "nope"), 1, "error: NOT_FOUND: project local has no job nope"),
        (("jobs", "watch", "nope"), 1, "error: NOT_FOUND: "),
        (("ai-platform", "jobs", "stream-logs", "nope"), 1, "error: NOT_FOUND: "),
        (("ai-platform", "jobs", "stream-logs", "nope", "--regex"), 2, "--grep TEXT --regex"),
        (("jobs", "logs", "nope", "--regex"), 1, "error: NOT_FOUND: "),
        (("buckets", "create"), 2, "create and adopt need the NAME"),
        (("buckets", "create", "Not A Name"), 1, "error: INVALID_ARGUMENT: "),
        (("nodes", "--url", "127.0.0.1:8080"), 2, "--url must be an address"),
        (("nodes", "--url", "http://127.0.0.1:1"), 1, "start one: trainshed serve"),
        (("nodes", "--data-dir", "nowhere"), 1, "start one with: trainshed serve"),
        (("ai", "custom-jobs", "create", "--display-name", "x"), 2, "give --worker-pool-spec"),
        (("ai", "custom-jobs", "create", "--epochs", "3"), 2, "go into --args=ARG,ARG"),
        (("ai", "custom-jobs", "create", "--worker-pool-spec", f"{POOL},script=x.py"), 2,
         "--python-package-uris"),
        (("ai", "hp-tuning-jobs", "create", "--display-name", "x"), 2, "--config"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line(client, words, code, text):
    run = client(*words)
    assert run.code == code
    assert text in run.err
    assert run.err.count("\n") == 1


def test_a_token_that_is_not_known_is_told_so(client, written, monkeypatch):
    wrong = written("token", "tsd_wrong")
    run = client("nodes", "--access-token-file", wrong)
    assert run.code == 1
    assert run.err.startswith("error: UNAUTHENTICATED: This server does not know the token.")
    monkeypatch.setenv("TRAINSHED_TOKEN", "tsd_wrong")
    assert client("nodes").code == 1


def test_what_is_no_trainshed_server_is_told(client):
    with StandIn(lambda *_: (200, ["x"])) as other:
        run = client("nodes", "--url", other.url)
    assert run.code == 1
    assert "is not from a Trainshed server" in run.err


def test_the_token_is_not_shown_to_whoever_has_the_port_of_a_server_that_ended(client, home):
    with StandIn() as other:
        other.note(home / "data", pid=2**22 + 1)  # no process has this id
        run = client("nodes", "--data-dir", home / "data")
    assert run.code == 1
    assert "has ended" in run.err
    assert other.requests == []


def test_the_environment_names_server_project_and_region(client, server, monkeypatch):
    monkeypatch.setenv("TRAINSHED_DATA_DIR", "/nowhere")
    monkeypatch.setenv("TRAINSHED_URL", server.url)
    monkeypatch.setenv("TRAINSHED_TOKEN", server.token)
    monkeypatch.setenv("TRAINSHED_PROJECT", "mine")
    monkeypatch.setenv("CLOUDSDK_COMPUTE_REGION", "europe-west4")
    run = client("ai", "custom-jobs", "list")
    assert "project mine has no custom job in europe-west4" in run.err
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "theirs")
    assert "project theirs" in client("ai", "custom-jobs", "list").err


def test_a_custom_job_from_flags_runs_on_its_pools_and_gives_its_exit_code(client):
    run = client(
        "ai", "custom-jobs", "create", "--display-name", "pools", "--labels", "a=b",
        "--worker-pool-spec", POOL, "--worker-pool-spec", "", "--worker-pool-spec",
        f"{POOL},replica-count=2", "--command", "python,-c",
        "--args", "raise SystemExit(4)",
        "--stream-logs", "--format", "json",
    )  # fmt: skip
    assert run.code == 4, run.err
    assert run.json["state"] == "JOB_STATE_FAILED"
    assert run.json["labels"] == {"a": "b"}
    pools = run.json["jobSpec"]["workerPoolSpecs"]
    assert [spec.get("replicaCount") for spec in pools] == ["1", None, "2"]
    assert "workerpool0-0" in run.err


def test_a_custom_job_from_a_file_takes_flags_over_it(client, written, server):
    spec = {"workerPoolSpecs": [pool("print('file')")], "serviceAccount": "a@b.example"}
    written("spec.json", spec)
    written("job.json", {"displayName": "whole", "jobSpec": spec})
    words = ("ai", "custom-jobs", "create", "--args", "print('flag')", "--format", "json")
    mine = client(*words, "--config", "spec.json", "--display-name", "mine").json
    assert mine["displayName"] == "mine"
    assert mine["jobSpec"]["serviceAccount"] == "a@b.example"
    assert mine["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"] == ["print('flag')"]
    whole = client(*words, "--config", "job.json", "--enable-web-access").json
    assert (whole["displayName"], whole["jobSpec"]["enableWebAccess"]) == ("whole", True)
    for job in (mine, whole):
        server.wait_for(f"/v1/{job['name']}", FINAL)


def test_a_refused_pool_is_named_by_its_flag(client):
    run = client(
        "ai", "custom-jobs", "create", "--display-name", "x", "--command", "true",
        "--worker-pool-spec", "machine-type=n9-huge,container-image-uri=registry.test/a",
    )  # fmt: skip
    assert run.code == 1
    assert "\n  --worker-pool-spec[0] machine-type: there is no machine type n9-huge" in run.err


def test_a_study_is_made_described_and_cancelled(client, written, server):
    study = {
        "studySpec": {
            "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
            "parameters": [
                {"parameterId": "units", "integerValueSpec": {"minValue": "4", "maxValue": "8"}}
            ],
        },
        "trialJobSpec": {"workerPoolSpecs": [pool("")]},
    }
    written("study.json", study)
    run = client(
        "ai", "hp-tuning-jobs", "create", "--display-name", "x", "--config", "study.json",
        "--max-trial-count", "6", "--algorithm", "grid-search",
    )  # fmt: skip
    assert run.code == 0, run.err
    (row,) = client("ai", "hp-tuning-jobs", "list", "--format", "json").json
    number = row["name"].rpartition("/")[2]
    described = client("ai", "hp-tuning-jobs", "describe", number, "--format", "json").json
    assert described["maxTrialCount"] == 6
    watch = f"trainshed ai hp-tuning-jobs watch {described['name']}"
    assert [line for line in run.err.splitlines() if watch in line]
    assert client("ai", "hp-tuning-jobs", "cancel", number).code == 0
    server.wait_for(f"/v1/{described['name']}", FINAL)


def test_a_custom_job_is_found_by_id_and_by_name_and_deleted_once(client, created):
    name = created(wait=FINAL)
    number = name.rpartition("/")[2]
    by_id = client("ai", "custom-jobs", "describe", number, "--format", "json").json
    assert by_id["name"] == name
    run = client("ai", "custom-jobs", "list", "--filter", f"name~{number}$")
    assert run.out.splitlines()[2].split()[:3] == [number, "made", "SUCCEEDED"]
    assert client("ai", "custom-jobs", "cancel", name).out.endswith(": SUCCEEDED\n")
    assert client("ai", "custom-jobs", "delete", number).code == 0
    assert client("ai", "custom-jobs", "describe", name).code == 1


def test_a_pipeline_is_listed_described_cancelled_and_deleted(client, server):
    inputs = {"worker_pool_specs": [pool(WAIT)]}
    document = {
        "displayName": "line",
        "trainingTaskDefinition": "gs://google-cloud-aiplatform/schema/trainingjob/definition/"
        "custom_task_1.0.0.yaml",
        "trainingTaskInputs": inputs,
    }
    status, pipeline = server.call("POST", f"/v1/{PARENT}/trainingPipelines", document)
    assert status == 200, pipeline
    pipelines = lambda *words: client("ai", "pipelines", *words)  # noqa: E731  # short for the test
    assert "line" in pipelines("list").out
    assert pipelines("describe", pipeline["name"], "--format", "json").json["displayName"] == "line"
    pipelines("cancel", pipeline["name"])
    server.wait_for(f"/v1/{pipeline['name']}", {"PIPELINE_STATE_CANCELLED"})
    assert "is deleted" in pipelines("delete", pipeline["name"]).out


def test_the_log_is_streamed_whole_and_by_task(client, created):
    name = created("print('one')", pool("print('two')"), wait=FINAL)
    whole = client("ai", "custom-jobs", "stream-logs", name, "--format", "json")
    lines = [json.loads(line) for line in whole.out.splitlines()]
    assert {line["task"] for line in lines} >= {"service", "workerpool0-0"}
    words = ("ai", "custom-jobs", "stream-logs", name, "--polling-interval", "9")
    one = client(*words, "--task-name", "workerpool0-0").out.splitlines()
    assert len(one) == 1
    assert one[0].startswith("INFO ")
    assert one[0].endswith(" workerpool0-0    │ one")


@pytest.mark.parametrize("verb", [("ai", "custom-jobs", "stream-logs"), ("jobs", "logs")])
def test_the_log_is_printed_from_a_line_and_by_its_text(client, created, server, verb):
    name = created("for n in range(1, 8): print(f'Step {n}: loss = 0.{n}')", wait=FINAL)

    def steps(*flags):
        run = client(*verb, name, "--task-name", "workerpool0-0", *flags)
        assert run.code == 0, run.err
        return [line.rpartition("│ ")[2][5] for line in run.out.splitlines()]

    path = f"/trainshed/v1/projects/{name.split('/')[1]}/jobs/{name.rpartition('/')[2]}"
    _, window = server.call("GET", f"{path}/logs:window?task=workerpool0-0")
    numbers = [str(row[0]) for row in window["lines"]]
    assert steps("--from-line", numbers[4]) == ["5", "6", "7"]
    assert steps("--from-line", "99") == []
    assert steps("--grep", "step 3") == ["3"]
    assert steps("--grep", r"0\.[46]$", "--regex") == ["4", "6"]
    assert steps("--grep", "loss", "--from-line", numbers[5]) == ["6", "7"]
    assert client(*verb, name, "--from-line", "0").code == 2
    refused = client(*verb, name, "--grep", "(", "--regex")
    assert refused.code == 1
    assert "q must be a regular expression of RE2" in refused.err


def test_a_dry_run_prints_the_plan_of_the_server_and_creates_no_job(client, written):
    spec = {"workerPoolSpecs": [pool("print('hello')")]}
    spec["workerPoolSpecs"][0]["containerSpec"]["env"] = [{"name": "API_KEY", "value": "s3cr3t"}]
    config = written("dry.json", json.dumps(spec))
    words = ("ai", "custom-jobs", "create", "--display-name", "dry", "--config", str(config))
    before = client("ai", "custom-jobs", "list", "--format", "json").json
    run = client(*words, "--dry-run", "--format", "json")
    assert run.code == 0, run.err
    [part] = run.json["parts"]
    plan = json.loads(part["text"])
    assert plan["replicas"][0]["argv"][-1] == "print('hello')"
    assert "s3cr3t" not in run.out
    text = client(*words, "--dry-run")
    assert "--- plan.json" in text.out
    assert client("ai", "custom-jobs", "list", "--format", "json").json == before
    refused = client(*words, "--dry-run", "--stream-logs")
    assert (refused.code, "--dry-run starts no job" in refused.err) == (2, True)


def test_a_dry_run_uploads_no_package(client, tmp_path):
    words = ("ai-platform", "jobs", "submit", "training", "dry_1", "--module-name", "m")
    run = client(*words, "--package-path", str(tmp_path), "--dry-run")
    assert run.code == 2
    assert "--package-path: --dry-run uploads nothing" in run.err
    both = ("--package-path", str(tmp_path), "--packages", str(tmp_path / "a.whl"))
    run = client(*words, *both, "--dry-run", "--stream-logs")
    assert run.code == 2
    assert "--stream-logs: --dry-run starts no job" in run.err
    assert "--package-path and --packages: --dry-run uploads nothing" in run.err
    run = client(*words, "--packages", "gs://dry/none.whl", "--dry-run", "--no-plan")
    assert run.code == 1


def test_a_job_tells_its_story(client, created):
    name = created("raise SystemExit(5)", wait=FINAL)
    kinds = [e["kind"] for e in client("jobs", "events", name, "--format", "json").json]
    assert (kinds[0], set(kinds[-2:]) & {"FAILED"}) == ("ACCEPTED", {"FAILED"})  # then GOODPUT
    assert "workerpool0-0 exited with code 5" in client("jobs", "events", name).out
    sent = client("jobs", "manifest", name, "--format", "json").json
    assert (sent["attempt"], [part["name"] for part in sent["parts"]]) == (1, ["plan.json"])
    assert "--- plan.json" in client("jobs", "manifest", name, "--attempt", "1").out
    none = client("jobs", "manifest", name, "--attempt", "7")
    assert none.code != 0
    assert "has no attempt 7" in none.err
    explained = client("jobs", "explain", name).out
    assert explained.startswith(f"{name}: FAILED\n")
    assert "non-zero status of 5" in explained


def test_a_waiting_job_says_why_and_the_change_it_names_would_admit_it(client, created, server):
    """Two gangs of 20 do not fit into the 32 places of the server."""
    end_jobs(server)
    first = created(WAIT, pool(WAIT, 19), wait={"JOB_STATE_RUNNING"})
    second = created(WAIT, pool(WAIT, 19))
    explained = server_says_why(client, second)
    assert explained["waiting"]["reason"] == "CAPACITY"
    lines = client("jobs", "explain", second).out.splitlines()
    assert lines[0] == f"{second}: QUEUED"
    assert lines[1].startswith("waits: CAPACITY: ")
    assert lines[2] == "place in the queue: 1"
    blocker = client("jobs", "describe", first, "--format", "json").json
    assert lines[3] == f"blocked by: {blocker['displayName']} ({first.rpartition('/')[2]})"
    assert explained["waiting"]["blockers"] == [first]
    assert lines[4] == explained["waiting"]["change"]["text"]
    described = client("ai", "custom-jobs", "describe", second)
    assert yaml.safe_load(described.out)["state"] == "JOB_STATE_QUEUED"
    assert "waits: CAPACITY: " in described.err
    fewer = int(explained["waiting"]["change"]["accepted"])
    third = created(WAIT, pool(WAIT, fewer), wait={"JOB_STATE_RUNNING"})
    for name in (second, first, third):
        assert client("ai", "custom-jobs", "cancel", name).code == 0
        server.wait_for(f"/v1/{name}", FINAL)


def server_says_why(client, name):
    deadline = time.monotonic() + 90
    while True:
        explanation = client("jobs", "explain", name, "--format", "json").json
        if explanation.get("waiting", {}).get("reason") != "NOT_LOOKED_AT":
            return explanation
        assert time.monotonic() < deadline, explanation


def test_nodes_and_buckets(client):
    (node,) = client("nodes", "--format", "json").json
    assert client("nodes", "list").out.splitlines()[2].split()[0] == node["name"]
    assert client("buckets", "create", "gs://mine", "--project", "buckets").code == 0
    run = client("buckets", "list", "--project", "buckets")
    assert run.out.splitlines()[2].split()[0] == "gs://mine"
    again = client("buckets", "create", "mine", "--project", "buckets")
    assert again.code == 1
    assert client("buckets", "list", "--project", "empty").out == ""


def test_a_folder_that_somebody_put_there_becomes_a_bucket_of_a_project(client, server):
    assert client("buckets", "adopt", "by-hand", "--project", "buckets").code == 1
    (server.data_dir / "buckets/by-hand").mkdir(parents=True)
    run = client("buckets", "adopt", "gs://by-hand", "--project", "buckets")
    assert run.out == "gs://by-hand belongs to project buckets\n"
    assert "gs://by-hand" in client("buckets", "list", "--project", "buckets").out
    refusal = client("buckets", "adopt", "by-hand", "--project", "others")
    assert (refusal.code, "project buckets, which cannot be changed" in refusal.err) == (1, True)
