"""What the server puts into a project's bucket is the project's by group, whatever the umask."""

import os
import stat

import pytest

from trainshed.engines.bucket_groups import share_bucket
from trainshed.files.beneath import Beneath, PathBeneath
from trainshed.storage.buckets import FOLDER_MODE
from trainshed.storage.folders import make_all
from trainshed.storage.object_files import move_into

GROUP = 200_005

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="run as root: it gives files to other groups"
)


@pytest.fixture(autouse=True)
def _private():
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def bucket(tmp_path):
    folder = tmp_path / "bucket"
    folder.mkdir()
    (folder / "old").mkdir()
    (folder / "old/data").write_text("7")
    (folder / "old/link").symlink_to(tmp_path / "outside")
    (tmp_path / "outside").write_text("not the bucket's")
    share_bucket(str(folder), GROUP)
    return folder


def rights(path):
    status = path.lstat()
    return status.st_gid, f"{stat.S_IMODE(status.st_mode):o}"


def test_a_bucket_from_before_is_given_with_all_that_is_in_it(bucket):
    assert rights(bucket) == (GROUP, "2770")
    assert rights(bucket / "old") == (GROUP, "2770")
    assert rights(bucket / "old/data") == (GROUP, "660")
    assert rights(bucket.parent / "outside") == (0, "600")


def test_it_is_done_once(bucket):
    (bucket / "old/data").chmod(0o600)
    share_bucket(str(bucket), GROUP)
    assert rights(bucket / "old/data") == (GROUP, "600")


def test_folders_and_objects_of_the_server_take_the_group(bucket, tmp_path):
    make_all([PathBeneath(bucket, "results/deep")], FOLDER_MODE)
    for folder in (bucket / "results", bucket / "results/deep"):
        assert rights(folder) == (GROUP, "2775")
    (tmp_path / "part").write_text("uploaded")
    with Beneath(tmp_path) as source, Beneath(bucket) as root, root.folder("results") as folder:
        move_into(source, "part", (folder, "object"), 0)
    assert rights(bucket / "results/object") == (GROUP, "664")
