"""What the folder that server and nodes share keeps of an attempt."""

import os
from pathlib import Path

import pytest

from trainshed.engines import spool
from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.slurm import attempt_files
from trainshed.engines.slurm.attempt_files import SpoolRecord
from trainshed.engines.supervise.record.folder import AttemptFolder


@pytest.fixture
def folder(tmp_path):
    folder = AttemptFolder(str(tmp_path / "7" / "1"))
    folder.make()
    return folder


@pytest.fixture
def synced(monkeypatch):
    """The inodes that were brought to the disk."""
    inodes = set()
    sync = os.fsync

    def note(descriptor):
        inodes.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return inodes


@pytest.mark.parametrize(
    ("keep", "name"),
    [
        (lambda folder: attempt_files.keep_submitted(folder, SpoolRecord(1.0)), "slurm.json"),
        (
            lambda folder: attempt_files.keep_end(folder, EndByCluster(stands=True)),
            "slurm-end.json",
        ),
        (spool.take_claim, "claim"),
    ],
)
def test_what_is_kept_outlasts_a_loss_of_power(folder, synced, keep, name):
    keep(folder)
    assert Path(folder.path, name).stat().st_ino in synced
    assert Path(folder.path).stat().st_ino in synced


def test_a_claim_of_ours_may_be_taken_again_and_that_of_a_job_never(folder):
    assert spool.take_claim(folder)
    assert spool.take_claim(folder)
    Path(folder.path, "claim").write_text("4711\n")
    assert not spool.take_claim(folder)
