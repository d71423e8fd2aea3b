"""``trainshed tensorboard``: the folder of a job, a study or a local run, or why there is none."""

import json
import re
import subprocess
import urllib.request

import pytest

from cli.conftest import PARENT, pool
from server_process import TRAINSHED
from trainshed.cli.jobs import tensorboard
from trainshed.workbench.output_folders import output_uri

EVENTS = "events.out.tfevents.1700000000.host"


@pytest.fixture
def job(server):
    """Creates a custom job with or without an output folder; gives its number."""

    def create(uri=None):
        directory = {"baseOutputDirectory": {"outputUriPrefix": uri}} if uri else {}
        spec = {"workerPoolSpecs": [pool("pass")], **directory}
        document = {"displayName": "board", "jobSpec": spec}
        status, answer = server.call("POST", f"/v1/{PARENT}/customJobs", document)
        assert status == 200, answer
        return answer["name"].rpartition("/")[2]

    return create


def event_file(server, *parts):
    folder = server.data_dir.joinpath("buckets", "staging", *parts)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / EVENTS).touch()
    return folder


def test_a_job_of_a_server_is_shown_from_its_log_folder(client, job, server):
    logs = event_file(server, "board", "logs")
    run = client(
        "tensorboard", job("gs://staging/board"), "--port", "7007", "--dry-run", "--format", "json"
    )
    assert run.code == 0, run.err
    assert run.json["folder"] == str(logs)
    assert run.json["command"][-4:] == ["--logdir", str(logs), "--port", "7007"]


def test_a_folder_of_a_local_run_and_a_uri_need_no_server(trainshed, tmp_path, home):
    (tmp_path / "runs/demo").mkdir(parents=True)
    (home / "data/buckets/my-bucket/out").mkdir(parents=True)
    for place, folder in (
        ("runs/demo", tmp_path / "runs/demo"),
        ("gs://my-bucket/out", home / "data/buckets/my-bucket/out"),
    ):
        run = trainshed("tensorboard", place, "--dry-run", "--format", "json")
        assert run.json["folder"] == str(folder), run.err
    flags = ("--dry-run", "--format", "json", "--", "--samples_per_plugin", "scalars=9")
    run = trainshed("tensorboard", "runs/demo", *flags)
    assert run.json["command"][-2:] == ["--samples_per_plugin", "scalars=9"]
    run = trainshed("tensorboard", "./nothing", "--dry-run")
    assert (run.code, "./nothing is not a folder" in run.err) == (2, True)


@pytest.mark.parametrize(
    ("document", "uri"),
    [
        ({"trainingInput": {"jobDir": "gs://b/j"}}, "gs://b/j"),
        ({"jobSpec": {"baseOutputDirectory": {"outputUriPrefix": "gs://b/v"}}}, "gs://b/v"),
        (
            {
                "studySpec": {},
                "trialJobSpec": {"baseOutputDirectory": {"outputUriPrefix": "gs://s"}},
            },
            "gs://s",
        ),
        (
            {"trainingTaskInputs": {"base_output_directory": {"output_uri_prefix": "gs://p"}}},
            "gs://p",
        ),
        ({"trainingInput": {}}, ""),
        ({"jobSpec": {}}, ""),
    ],
)
def test_the_folder_of_jobs_and_studies_of_both_dialects_is_what_their_document_says(document, uri):
    assert output_uri(document) == uri


def test_a_job_without_an_output_folder_is_told_how_to_get_one(client, job):
    run = client("tensorboard", job(), "--dry-run")
    assert run.code == 2
    assert "submit it with --job-dir or baseOutputDirectory" in run.err


def test_a_folder_of_another_machine_says_how_to_copy_it_or_to_look_from_here(
    client, job, server, tmp_path, monkeypatch
):
    number = job("gs://staging/elsewhere")
    url = json.loads((server.data_dir / "server.json").read_text())["url"]
    monkeypatch.setenv("TRAINSHED_URL", url)
    monkeypatch.setenv("TRAINSHED_TOKEN", (server.data_dir / "admin-token").read_text().strip())
    monkeypatch.setenv("TRAINSHED_DATA_DIR", str(tmp_path / "not-of-the-server"))
    run = client("tensorboard", number, "--dry-run")
    assert run.code == 2
    for words in (
        "gs://staging/elsewhere is not a folder of this machine",
        "--data-dir",
        "gcloud storage rsync -r gs://staging/elsewhere events && trainshed tensorboard events",
        "ssh -L 6006:localhost:6006",
    ):
        assert words in run.err
    folder = event_file(server, "elsewhere")
    run = client("tensorboard", number, "--dry-run", "--data-dir", server.data_dir)
    assert str(folder) in run.out, run.err


def test_without_tensorboard_the_install_line_is_printed(trainshed, tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    run = trainshed("tensorboard", ".", "--dry-run")
    assert run.code == 2
    assert (
        "TensorBoard is not installed; pip install --find-links dist 'trainshed[tensorboard]'"
        in run.err
    )


@pytest.mark.full
@pytest.mark.slow
def test_tensorboard_itself_shows_the_runs_of_a_folder(tmp_path):
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - half a minute

    writer = SummaryWriter(tmp_path / "run-1")
    writer.add_scalar("loss", 0.5, 1)
    writer.close()
    command = [TRAINSHED, "tensorboard", tmp_path, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            address = next(filter(None, (re.search(r"http://\S+", line) for line in lines)))[0]
            with urllib.request.urlopen(f"{address}data/runs") as answer:
                assert json.load(answer) == ["run-1"]
        finally:
            process.terminate()
