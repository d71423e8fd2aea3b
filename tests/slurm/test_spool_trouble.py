"""The shared folder is full, read-only or away for a while, and comes back."""

import pytest

from e2e import fleet
from e2e.chaos import check_count, counting
from e2e.disks import away, full, read_only, small_disk
from e2e.support import native, submit, wait_until
from slurm.support import a_job, allocations, on_cluster

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(600)]

DISK_MIB = 256


@pytest.fixture
def disk(cluster):
    with small_disk(cluster.shared / "disk", DISK_MIB) as folder:
        yield folder
        cluster.empty()
    (cluster.shared / "disk").rmdir()


@pytest.fixture
def server(cluster, disk, tmp_path):
    with on_cluster(cluster, tmp_path / "data", spool=str(disk)) as server:
        yield server


def check_ended(server, cluster, *names):
    for name in names:
        job = fleet.ended(server, name)
        story = fleet.story_text(server, name)
        assert (job["state"], job["attempt"], job.get("restarts")) == (
            "SUCCEEDED",
            1,
            None,
        ), story
    uids = {native(server, name)["uid"] for name in names}
    ours = [name for name in allocations(cluster, uids) if name.rpartition("-")[2] in uids]
    assert len(ours) == len(names), ours


def check_trouble(server, cluster, trouble, words):
    """One job runs meanwhile, and one is submitted."""
    go = cluster.shared / f"go-{words.replace(' ', '-')}"
    runs = fleet.begun(server, a_job("runs", counting(go, pause_s=0.05)), "1")
    with trouble:
        late = submit(server, a_job("late"))
        wait_until(
            lambda: words in fleet.story_text(server, late),
            lambda: fleet.story_text(server, late),
        )
    before = len(fleet.output_lines(server, runs))
    wait_until(lambda: len(fleet.output_lines(server, runs)) > before)
    go.touch()
    check_ended(server, cluster, late, runs)
    check_count(fleet.output_lines(server, runs))


def test_a_full_disk_is_told_and_costs_no_attempt(server, cluster, disk):
    check_trouble(server, cluster, full(disk / "ballast"), "the disk is full")


def test_a_read_only_disk_is_told_and_costs_no_attempt(server, cluster, disk):
    check_trouble(server, cluster, read_only(disk), "the file system is read-only")


def test_a_folder_that_is_away_is_told_and_costs_no_attempt(server, cluster, disk):
    check_trouble(server, cluster, away(disk), "is missing or empty")
