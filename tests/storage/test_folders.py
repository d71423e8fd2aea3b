import resource
import signal

import pytest

from trainshed.files.beneath import PathBeneath
from trainshed.model.faults import EngineFault
from trainshed.storage.folders import make, make_all


def test_a_folder_is_made_with_its_parents_and_left_empty(tmp_path):
    make_all([PathBeneath(tmp_path / "a/b"), PathBeneath(tmp_path, "a/b")])
    assert list((tmp_path / "a/b").iterdir()) == []


def test_a_file_in_the_way_is_named_with_the_reason(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(EngineFault, match=r"cannot write to .*taken: it is a file"):
        make(PathBeneath(tmp_path / "taken"))
    with pytest.raises(EngineFault, match="a part of the path is a file"):
        make(PathBeneath(tmp_path, "taken/below"))


def test_a_broken_link_in_the_way_is_a_fault(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(EngineFault, match="broken link"):
        make(PathBeneath(tmp_path / "link"))


def test_a_link_below_a_bucket_leads_nowhere(tmp_path):
    bucket, outside = tmp_path / "bkt", tmp_path / "outside"
    bucket.mkdir()
    outside.mkdir()
    (bucket / "link").symlink_to(outside)
    for name in ("link", "link/new"):
        with pytest.raises(EngineFault, match="a part of the path is a link"):
            make(PathBeneath(bucket, name))
    assert list(outside.iterdir()) == []


def test_a_file_system_that_takes_no_more_data_is_a_fault_before_the_job_starts(tmp_path):
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, old[1]))
    try:
        with pytest.raises(
            EngineFault, match="the file is too large for its file system or its limit"
        ):
            make(PathBeneath(tmp_path / "out"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_is_called_full(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(EngineFault, match=r"cannot write to .*out: the disk is full"):
        make(PathBeneath(tmp_path / "out"))
