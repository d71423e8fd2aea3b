"""A pipeline's job that ends well and leaves no model has failed, with the empty folder named."""

import pytest

from trainshed.controller.model_folder import ModelFolders
from trainshed.lifecycle.events import PrimarySucceeded
from trainshed.lifecycle.outcome import Judgement, gave_up
from trainshed.storage.buckets import Buckets

ENDED = Judgement(event=PrimarySucceeded())
FOLDER = "gs://out/run/model"


class OneModel:
    """A store with the model of one job."""

    def __init__(self, folder=FOLDER):
        self.folder = folder

    def model_folder(self, uid):
        return self.folder if uid == 1 else ""


@pytest.fixture
def buckets(tmp_path):
    (tmp_path / "out").mkdir()
    return Buckets(root=tmp_path)


def check(buckets, uid=1, judgement=ENDED, folder=FOLDER):
    return ModelFolders(OneModel(folder), buckets).check(uid, judgement)


@pytest.mark.parametrize(
    "folders", [(), ("run",), ("run/model",), ("run/model/variables", "run/x")]
)
def test_a_folder_without_files_fails_the_job(buckets, folders):
    for name in folders:
        (buckets.root / "out" / name).mkdir(parents=True, exist_ok=True)
    judged = check(buckets)
    assert judged.error.code == 5
    assert "there are no files under gs://out/run/model/" in judged.error.message
    assert "AIP_MODEL_DIR" in judged.error.message


@pytest.mark.parametrize("name", ["model.pt", "variables/variables.index", "0001/saved_model.pb"])
def test_a_file_at_any_depth_is_a_model(buckets, name):
    path = buckets.root / "out/run/model" / name
    path.parent.mkdir(parents=True)
    path.write_text("x")
    assert check(buckets) is ENDED


def test_a_file_beside_the_folder_is_no_model(buckets):
    (buckets.root / "out/run").mkdir()
    (buckets.root / "out/run/model.pt").write_text("x")
    assert check(buckets).error is not None


def test_other_jobs_other_ends_and_other_buckets_are_left_alone(buckets):
    failed = gave_up("it failed", 3)
    assert check(buckets, uid=2) is ENDED
    assert check(buckets, judgement=failed) is failed
    assert check(buckets, folder="gs://elsewhere/model") is ENDED
    assert check(buckets, folder="/mnt/model") is ENDED
    assert check(None) is ENDED
