"""An upgrade under a running study: it goes on with the trials that the release before gives it."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from e2e.support import WITHOUT_WALLS, check_the_end, good, native, wait_until
from e2e.test_tuning import create, ended, make_bucket, study
from e2e.test_upgrade import old_and_new, path_of, sources_of

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

#: The last commit whose studies had no rule of their search.
WITHOUT_RULES = "95b53558"
#: Its first ten trials fill the space; the model then chooses the others.
TRIALS, BEFORE_UPGRADE = 14, 11

#: Prints what a release suggests for each trial after those before it, from a copy of its database.
SUGGESTS = """\
import json, sys
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.store.opening import open_store
from trainshed.tuning.suggest import suggest
store = open_store(f"sqlite:///{sys.argv[1]}")
(study,) = store.open_studies()
spec = store.job_by_uid(study.uid).job.spec.study
trials = [
    TrialRecord(
        number=number,
        state=TrialState.SUCCEEDED,
        values=tuple((name, value) for name, value in values),
        final=Measurement(metrics=(("accuracy", accuracy),)),
    )
    for number, (values, accuracy) in enumerate(json.load(sys.stdin), start=1)
]
points = [suggest(spec, trials[:n], 1, study.uid).values[0] for n in range(len(trials))]
print(json.dumps(points))
"""


@pytest.fixture
def old_tree(tmp_path):
    (tmp_path / "before").mkdir()
    return sources_of(WITHOUT_RULES, tmp_path / "before")


def test_a_study_goes_on_with_the_trials_of_the_release_before(old_tree, tmp_path):
    with old_and_new(tmp_path / "data", old_tree, "--anonymous", config=WITHOUT_WALLS) as servers:
        old, new = servers
        old.start()
        make_bucket(old)
        name = create(old, study(trials=TRIALS, parallel=1))
        wait_until(lambda: len(trials_of(old, name)) >= BEFORE_UPGRADE, timeout_s=240)
        old.kill()
        copy = copied_database(old.data_dir, tmp_path / "copy")
        new.start()
        job = ended(new, name, timeout_s=240)
        assert job["state"] == "JOB_STATE_SUCCEEDED", native(new, name, "/explain")
        trials = [settled(trial) for trial in job["trials"]]
        new.stop()
        check_the_end(new)
    assert len(trials) == TRIALS
    assert [values for values, _ in trials] == suggested(old_tree, copy, trials)


def trials_of(server, name):
    return good(server.call("GET", f"/v1/{name}")).get("trials", [])


def settled(trial):
    """A trial's values, and its result."""
    values = [[parameter["parameterId"], parameter["value"]] for parameter in trial["parameters"]]
    (metric,) = trial["finalMeasurement"]["metrics"]
    return values, metric["value"]


def copied_database(data_dir, folder):
    """A copy of the database of a server that was killed, with its log of writes."""
    folder.mkdir()
    for file in data_dir.glob("trainshed.db*"):
        shutil.copy(file, folder)
    return folder / "trainshed.db"


def suggested(old_tree, database, trials):
    environ = {**os.environ, "PYTHONPATH": path_of(old_tree)}
    return json.loads(
        subprocess.check_output(
            [sys.executable, "-P", "-c", SUGGESTS, str(database)],
            env=environ,
            input=json.dumps(trials),
            text=True,
        )
    )
