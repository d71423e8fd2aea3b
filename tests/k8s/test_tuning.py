"""Studies whose trials run in pods have the results that they have on one machine."""

import tarfile

import pytest
import yaml

from e2e import fleet
from e2e.support import PROJECT, good
from e2e.test_tuning import create, ended, study
from examples.cluster import EXAMPLES, needs
from k8s.serving import IMAGES, compose_table
from slurm.test_tuning import WRITES_EVENTS, run_study, serve_study

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(600)]

TRIALS, PARALLEL = 12, 4


@pytest.fixture
def on_cluster(live_cluster, tmp_path):
    folder = tmp_path / "cluster"
    with serve_study(folder, compose_table(live_cluster, folder), images=IMAGES) as server:
        yield server


@pytest.fixture
def here(tmp_path):
    with serve_study(tmp_path / "here", "") as server:
        yield server


def test_trials_by_hypertunes_file_are_those_of_one_machine(on_cluster, here):
    """The server is killed meanwhile."""
    document = study(trials=TRIALS, parallel=PARALLEL, algorithm="RANDOM_SEARCH")

    def kill():
        on_cluster.kill()
        on_cluster.start()

    trials = run_study(on_cluster, document, kill)
    assert len(trials) == TRIALS
    assert trials == run_study(here, document)


def test_trials_by_event_files_are_those_of_one_machine(on_cluster, here):
    document = study(WRITES_EVENTS, trials=6, parallel=3, algorithm="RANDOM_SEARCH")
    trials = run_study(on_cluster, document)
    assert {trial["last"]["stepCount"] for trial in trials} == {"5"}
    assert trials == run_study(here, document)


def test_what_is_tried_next_follows_from_what_pods_have_reported(on_cluster, here):
    """One at a time, so that what is known before each trial is the same."""
    document = study(trials=4, parallel=1)
    assert run_study(on_cluster, document) == run_study(here, document)


@needs("sklearn", "hypertune")
def test_the_example_finds_a_good_network(on_cluster):
    """Its package and configuration are those of the folder, with fewer trials."""
    bucket = on_cluster.data_dir / "buckets" / "my-bucket"
    good(on_cluster.call("POST", f"/storage/v1/b?project={PROJECT}", {"name": bucket.name}))
    (bucket / "packages").mkdir()
    with tarfile.open(bucket / "packages" / "digits-1.0.tar.gz", "w:gz") as archive:
        for name in ("setup.py", "trainer"):
            archive.add(EXAMPLES / "tuning" / name, f"tuning/{name}")
    document = yaml.safe_load((EXAMPLES / "tuning" / "hpt.yaml").read_text())
    name = create(on_cluster, document | {"displayName": "digits", "maxTrialCount": 4})
    job = ended(on_cluster, name, timeout_s=400)
    assert job["state"] == "JOB_STATE_SUCCEEDED", fleet.story_text(on_cluster, name)
    accuracies = [
        metric["value"]
        for trial in job["trials"]
        for metric in trial["finalMeasurement"]["metrics"]
    ]
    assert len(accuracies) == 4
    assert max(accuracies) > 0.8
    assert any((bucket / "digits").glob("*/model/model.npz"))
