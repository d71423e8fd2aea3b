"""What lies in a data directory is closed to other users of the machine."""

import os
import stat

import pytest

from trainshed.service.upkeep.file_modes import make_private, open_to_others


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def data(tmp_path):
    """As an older release left it under the usual umask."""
    folder = tmp_path / "data"
    for name in ("", "jobs", "uploads/parts", "objects", "tls", "buckets/bkt/logs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name).chmod(0o755)
    for name in ("trainshed.db", "trainshed.db-wal", "admin-token", "tls/ca.key"):
        (folder / name).touch()
        (folder / name).chmod(0o644)
    for name in ("server.json", "tls/ca.pem", "buckets/bkt/object"):
        (folder / name).touch()
        (folder / name).chmod(0o644)
    return folder


def test_a_directory_of_an_older_release_is_closed_and_that_is_said_once(data, caplog):
    make_private(data)
    shut = ("", "jobs", "uploads", "objects", "tls")
    assert {mode(data / name) for name in shut} == {0o700}
    assert mode(data / "buckets") == 0o711  # a kubelet may have to pass it
    secrets = ("trainshed.db", "trainshed.db-wal", "admin-token", "tls/ca.key")
    assert {mode(data / name) for name in secrets} == {0o600}
    assert (mode(data / "buckets/bkt"), mode(data / "buckets/bkt/object")) == (0o750, 0o644)
    (message,) = [record.message for record in caplog.records]
    assert message == f"removed other users' access to {data} and 10 more"
    caplog.clear()
    make_private(data)
    assert not caplog.records
    assert open_to_others(data) == {}


def test_a_bucket_stays_open_to_its_group_and_hands_it_on(data):
    make_private(data)
    (data / "buckets/bkt").chmod(0o2775)
    make_private(data)
    assert mode(data / "buckets/bkt") == 0o2770


def test_the_trainer_library_stays_open_to_jobs_which_import_it(data):
    (data / "trainer-library").mkdir(mode=0o755)
    make_private(data)
    assert mode(data / "trainer-library") == 0o755
    assert open_to_others(data) == {}


def test_a_new_directory_is_closed_whatever_the_umask_is(tmp_path, caplog):
    before = os.umask(0)
    try:
        make_private(tmp_path / "a" / "data")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a" / "data") == 0o700
    assert not caplog.records


def test_a_directory_that_all_share_is_left_and_named(data, caplog):
    """``--data-dir /tmp`` must not close it to everybody else."""
    data.chmod(0o1777)
    make_private(data)
    assert mode(data) == 0o1777
    assert f"cannot remove other users' access to {data}; change its mode or owner" in {
        record.message for record in caplog.records
    }
