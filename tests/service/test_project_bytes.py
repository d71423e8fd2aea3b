"""A project has only so many bytes in its buckets, its uploads and the folders of its jobs."""

import os

import pytest

from service.submitting import PROJECT, Desk, ml_job, refusal
from trainshed.model.refusals import Code
from trainshed.model.status import JobState
from trainshed.service.upkeep.project_bytes import Measuring, NoRoom, ProjectBytes
from trainshed.storage.disk_usage import sizes
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import Uploads, UploadSession

MIB = 1 << 20


@pytest.fixture
def project_bytes():
    return ProjectBytes(4 * MIB)


@pytest.fixture
def measuring(store, tmp_path, project_bytes):
    return Measuring(
        store=store,
        buckets=tmp_path / "buckets",
        jobs=(tmp_path / "jobs",),
        uploads=Uploads(Objects(data_dir=tmp_path)),
        project_bytes=project_bytes,
    )


def fill(path, size=MIB):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))


def room(project_bytes, project=PROJECT):
    """How many whole MiB a project may add, tried out."""
    for count in range(5, -1, -1):
        trial = ProjectBytes(project_bytes.most)
        trial.measured(project_bytes._used)
        try:
            trial.take(project, count * MIB)
        except NoRoom:
            continue
        return count
    return -1


def test_what_is_noted_of_objects_without_bytes_counts_too(
    store, tmp_path, measuring, project_bytes
):
    store.add_bucket("stage", PROJECT)
    fill(tmp_path / "objects/stage/ab/abcd.json", 2 * MIB)
    fill(tmp_path / "objects/.locks/ab", 9 * MIB)
    measuring.look()
    assert room(project_bytes) == 1


def test_buckets_uploads_and_folders_of_jobs_are_measured(
    store, tmp_path, measuring, project_bytes
):
    desk = Desk(store)
    record = desk.ml(ml_job())
    measuring.look()
    assert room(project_bytes) == 4
    fill(tmp_path / "buckets/stage/deep/down/x")
    fill(tmp_path / "buckets/nobodys/x", 9 * MIB)
    measuring.look()
    assert room(project_bytes) == 2  # a folder takes a little too
    session = UploadSession(bucket="stage", name="half")
    upload = measuring.uploads.begin(session)
    measuring.uploads.write(upload, 0, bytes(MIB))
    fill(tmp_path / f"jobs/{record.uid}/1/work/x")
    measuring.look()
    assert room(project_bytes) == 0
    assert room(project_bytes, "other") == 4


def test_what_a_job_that_is_over_has_left_counts_until_it_is_removed(
    store, tmp_path, measuring, project_bytes
):
    desk = Desk(store)
    record = desk.put(desk.ml(ml_job()), JobState.CANCELLED)
    work = tmp_path / f"jobs/{record.uid}/1/work/x"
    fill(work)
    for _ in range(2):
        measuring.look()
        assert room(project_bytes) == 2
    work.unlink()
    for folder in (work.parent, work.parents[1], work.parents[2]):
        folder.rmdir()
    measuring.look()
    assert room(project_bytes) == 4


def test_links_lead_nowhere(tmp_path):
    fill(tmp_path / "elsewhere/x", 8 * MIB)
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket/link").symlink_to(tmp_path / "elsewhere")
    bytes_by_folder = sizes([tmp_path / "bucket", tmp_path / "gone"])
    assert list(bytes_by_folder) == [tmp_path / "bucket"]
    assert bytes_by_folder[tmp_path / "bucket"] < MIB


def test_a_job_of_a_project_that_has_too_much_is_refused(store, project_bytes):
    desk = Desk(store, project_bytes=project_bytes)
    project_bytes.measured({PROJECT: 4 * MIB})
    desk.ml(ml_job("job_1"))
    project_bytes.measured({PROJECT: 4 * MIB + 1})
    error = refusal(desk.ml, ml_job("job_2"))
    assert (error.code, error.code.http) == (Code.RESOURCE_EXHAUSTED, 429)
    assert "project demo has 4194305 bytes" in error.message
    assert "may have 4194304 (limits.project_bytes_max)" in error.message
    desk.ml(ml_job("job_2"), project="other")


def test_uploads_count_as_they_come(project_bytes):
    project_bytes.take(PROJECT, 3 * MIB)
    project_bytes.take("other", 3 * MIB)
    with pytest.raises(NoRoom, match=r"limits\.project_bytes_max"):
        project_bytes.take(PROJECT, 2 * MIB)
    project_bytes.take(PROJECT, MIB)
    project_bytes.measured({})
    project_bytes.take(PROJECT, 4 * MIB)
