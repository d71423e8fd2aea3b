"""Studies whose trials run in pods have the results that they have on one machine."""

import json
from pathlib import Path

import pytest

from e2e.support import native
from e2e.test_tuning import RESUMING, check_paused_trials, make_bucket, study
from examples.cluster import needs
from k8s.serving import IMAGES, SERVER_CLAIM, compose_table
from slurm.test_tuning import WRITES_EVENTS, check_the_example, run_study, serve_study

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(600)]

TRIALS, PARALLEL = 12, 4
#: A warden sends the first checkpoint with its next heartbeat, within five seconds; a rung before
#: that stops a trial.  So the program waits after step 2 for a file of the test.
WAITING = RESUMING.replace(
    "    while trial > 1 and not newest and step == 4:",
    """\
    while step == 2 and not local_path(f"gs://tuning-bucket/known/{trial}").exists():
        time.sleep(0.05)
    while trial > 1 and not newest and step == 4:""",
).replace("import checkpoint_saver", "import local_path, checkpoint_saver")
assert WAITING.count("local_path") == 2, "RESUMING has changed"


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
    document = study(trials=6, parallel=1)
    assert run_study(on_cluster, document) == run_study(here, document)


@needs("hypertune")
def test_a_paused_trial_goes_on_from_its_checkpoint_to_its_end(on_cluster, live_cluster, tmp_path):
    make_bucket(on_cluster)
    spool = Path(live_cluster.make_settings(tmp_path, SERVER_CLAIM)["spool"])
    permissions = on_cluster.data_dir / "buckets" / "tuning-bucket" / "known"
    permissions.mkdir()

    def let_go(name):
        """Let trials go on of whose checkpoints the engine knows."""
        for trial in native(on_cluster, name, "/trials")["trials"]:
            for path in spool.glob(f"*/jobs/{trial['job']}/*/**/*.steps.json"):
                if json.loads(path.read_text())["checkpoint_at"]:
                    (permissions / str(trial["number"])).touch()

    check_paused_trials(on_cluster, WAITING, let_go)


@needs("sklearn", "hypertune")
def test_the_example_finds_a_good_network(on_cluster):
    check_the_example(on_cluster)
