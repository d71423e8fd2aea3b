"""The server's buckets are folders of the claim, and their group is the server's."""

import os
import stat

import pytest

from trainshed.engines.kubernetes import bucket_folders
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment, LaunchPlan


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_without_buckets_becomes_a_link(tmp_path, is_there):
    folder, claim = tmp_path / "data" / "buckets", tmp_path / "claim" / "abc" / "buckets"
    if is_there:
        folder.mkdir(parents=True)
    for _ in range(2):
        bucket_folders.link_buckets(folder, claim)
    assert folder.resolve() == claim
    assert stat.S_IMODE(claim.stat().st_mode) == 0o711


def test_a_folder_with_buckets_stays_and_its_buckets_are_refused(tmp_path):
    folder, claim = tmp_path / "buckets", tmp_path / "claim"
    (folder / "results").mkdir(parents=True)
    bucket_folders.link_buckets(folder, claim)
    assert not folder.is_symlink()
    with pytest.raises(EngineFault, match="pods cannot mount the bucket results") as refusal:
        bucket_folders.share_buckets(["results"], folder, claim)
    assert f"let {folder} be a link to {claim}" in str(refusal.value)


def test_a_bucket_and_its_content_become_the_groups(tmp_path):
    folder, claim = tmp_path / "buckets", tmp_path / "claim"
    bucket_folders.link_buckets(folder, claim)
    bucket = claim / "results"
    (bucket / "run").mkdir(parents=True)
    file = bucket / "run" / "model"
    file.touch(0o600)
    other = claim / "not-of-the-job"
    other.mkdir(0o700)
    bucket_folders.share_buckets(["results"], folder, claim)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (bucket, file, other)]
    assert modes == [0o2770, 0o660, 0o700]
    assert file.stat().st_gid == os.getegid()


def test_the_buckets_of_a_plan_are_its_mounts_below_gcs():
    binds = (("/gcs/results", "/gcs/results"), ("/opt/data", "/data"))
    plan = LaunchPlan(
        job_id="j", attempt=1, replicas=(), environment=Environment(python="python"), binds=binds
    )
    assert bucket_folders.list_buckets(plan) == ("results",)
