"""Studies whose trials run on the nodes of a cluster find what they find on one machine."""

import sys
import tarfile
from pathlib import Path

import pytest
import yaml

import trainshed
from e2e.altered_server import altered
from e2e.support import PROJECT, good, native, serving
from e2e.test_tuning import (
    check_paused_trials,
    create,
    ended,
    make_bucket,
    settings_by_trial,
    study,
)
from engines import events
from examples.cluster import EXAMPLES, needs
from slurm.support import table

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(600)]

TRIALS, PARALLEL = 30, 6
#: Writes a curve as TensorFlow does, and reports nothing itself.  What of ours comes with every job
#: has no reader of event files.
WRITES_EVENTS = f"""\
import sys
sys.path.insert(0, {str(Path(trainshed.__file__).parents[1])!r})
{Path(events.__file__).read_text()}
import argparse, json, os
from trainshed_trainer import local_path
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--opt")
args = parser.parse_args()
trial = os.environ["CLOUD_ML_TRIAL_ID"]
print("told", json.dumps({{"trial": trial}}), flush=True)
folder = local_path(os.environ["AIP_TENSORBOARD_LOG_DIR"])
folder.mkdir(parents=True, exist_ok=True)
with (folder / "events.out.tfevents.1").open("wb") as file:
    file.write(first())
    for step in range(1, 6):
        file.write(record(event(tensor("accuracy", args.lr / step), step=step)))
"""


@pytest.fixture
def on_cluster(cluster, tmp_path):
    """The nodes' Python stands in for Google's prebuilt images, too."""
    environments = {"default": sys.executable, "tests": sys.executable}
    config = table(cluster, environments=environments)
    with serve_study(tmp_path / "cluster", config) as server:
        yield server


@pytest.fixture
def here(tmp_path):
    with serve_study(tmp_path / "here", "") as server:
        yield server


def serve_study(folder, config, **more):
    return serving(folder, "--anonymous", config=config, program=altered("draws-alike"), **more)


def run_study(server, document, in_between=lambda: None):
    """All that is known of a study's trials but when, where and for how long."""
    make_bucket(server)
    name = create(server, document)
    in_between()
    job = ended(server, name, timeout_s=300)
    assert job["state"] == "JOB_STATE_SUCCEEDED", native(server, name, "/explain")
    settings = settings_by_trial(server, name)
    assert {len(values) for values in settings.values()} == {1}, "a trial ran twice"
    return [_lasting_fields(trial) for trial in job["trials"]]


def _lasting_fields(trial):
    return {
        **{key: trial[key] for key in ("id", "state", "parameters")},
        "measured": [_without_time(measurement) for measurement in trial["measurements"]],
        "last": _without_time(trial["finalMeasurement"]),
    }


def _without_time(measurement):
    return {key: measurement[key] for key in ("stepCount", "metrics")}


def test_trials_by_hypertunes_file_are_those_of_one_machine(on_cluster, here):
    document = study(trials=TRIALS, parallel=PARALLEL, algorithm="RANDOM_SEARCH")

    def dies():
        on_cluster.kill()
        on_cluster.start()

    there = run_study(on_cluster, document, dies)
    assert len(there) == TRIALS
    assert there == run_study(here, document)


def test_trials_by_event_files_are_those_of_one_machine(on_cluster, here):
    document = study(WRITES_EVENTS, trials=12, parallel=PARALLEL, algorithm="RANDOM_SEARCH")
    there = run_study(on_cluster, document)
    assert {trial["last"]["stepCount"] for trial in there} == {"5"}
    assert there == run_study(here, document)


def test_what_is_tried_next_follows_from_what_nodes_have_reported(on_cluster, here):
    """One at a time, so that what is known before each trial is the same."""
    document = study(trials=8, parallel=1)
    assert run_study(on_cluster, document) == run_study(here, document)


@needs("hypertune")
def test_a_paused_trial_goes_on_from_its_checkpoint_to_its_end(on_cluster):
    make_bucket(on_cluster)
    check_paused_trials(on_cluster)


@needs("sklearn", "hypertune")
def test_the_example_finds_a_good_network(on_cluster):
    check_the_example(on_cluster)


def check_the_example(server):
    """Run the study of the folder, its package and configuration unchanged, with fewer trials."""
    bucket = server.data_dir / "buckets" / "my-bucket"
    good(server.call("POST", f"/storage/v1/b?project={PROJECT}", {"name": bucket.name}))
    (bucket / "packages").mkdir()
    with tarfile.open(bucket / "packages" / "digits-1.0.tar.gz", "w:gz") as archive:
        for name in ("setup.py", "trainer"):
            archive.add(EXAMPLES / "tuning" / name, f"tuning/{name}")
    document = yaml.safe_load((EXAMPLES / "tuning" / "hpt.yaml").read_text())
    name = create(server, document | {"displayName": "digits", "maxTrialCount": 4})
    job = ended(server, name, timeout_s=400)
    assert job["state"] == "JOB_STATE_SUCCEEDED", native(server, name, "/explain")
    accuracies = [
        metric["value"]
        for trial in job["trials"]
        for metric in trial["finalMeasurement"]["metrics"]
    ]
    assert len(accuracies) == 4
    assert max(accuracies) > 0.8
    assert any((bucket / "digits").glob("*/model/model.npz"))
