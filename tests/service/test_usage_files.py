"""Samples of attempts that ended a week ago are merged, whichever server finds them."""

import os
from pathlib import Path

import pytest

from databases import new_database
from store.builders import add, go, place
from trainshed.engines.supervise.record import usage_file
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.usage_file import UsageFile, read_usage
from trainshed.model.status import JobState
from trainshed.model.usage import GpuUsage, Spread, UsageLine, encode_lines
from trainshed.service.upkeep import usage_files
from trainshed.service.upkeep.usage_files import UsageThinning
from trainshed.store.opening import open_store

DAY_S = 86_400.0
LINES = 240


@pytest.fixture
def store(tmp_path):
    store = open_store(new_database(tmp_path))
    yield store
    store.close()


class World:
    """Some jobs with four hours of samples."""

    def __init__(self, store, root):
        self.store, self.root, self.now_s, self.passed_s = store, root, LINES * 60.0, 0.0
        self.chore = UsageThinning(
            store=store,
            jobs_dirs=[root / "missing", root],
            clock=lambda: self.now_s,
            monotonic=lambda: self.passed_s,
        )

    def add(self, *, is_over=True):
        uid = add(self.store).uid
        place(self.store, uid)
        if is_over:
            go(self.store, uid, JobState.RUNNING)
            go(self.store, uid, JobState.SUCCEEDED)
        folder = self.root / str(uid) / "1"
        folder.mkdir(parents=True)
        file = UsageFile(AttemptFolder(folder))
        for minute in range(1, LINES + 1):
            usages = {f"GPU-{number}": GpuUsage(power=Spread(1, 2, 3)) for number in range(4)}
            lines = encode_lines(UsageLine(60.0 * minute, 60.0, gpus=usages))
            file.append(lines, 60.0 * minute, are_last=minute == LINES)
        os.utime(AttemptFolder(folder).packed_usage, (self.now_s, self.now_s))
        return AttemptFolder(folder)

    def days_later(self, days):
        self.now_s += days * DAY_S
        self.passed_s += days * DAY_S
        self.chore.tidy()


@pytest.fixture
def world(store, tmp_path, monkeypatch):
    monkeypatch.setattr(usage_file, "_PACK_LAST_BYTES", 1)
    return World(store, tmp_path / "jobs")


def test_samples_of_an_ended_attempt_are_merged_after_a_week(world):
    over, runs = world.add(), world.add(is_over=False)
    world.days_later(6.9)
    assert len(read_usage(over)) == LINES
    world.days_later(1)
    merged = read_usage(over)
    assert len(merged) == LINES / 10 + 1
    assert sum(line.s for line in merged) == LINES * 60
    assert len(read_usage(runs)) == LINES, "its supervisor merges them"
    world.days_later(8)
    assert read_usage(over) == merged


def test_a_turn_rewrites_a_few_files_and_the_next_one_continues(world, monkeypatch):
    monkeypatch.setattr(usage_files, "_AT_ONCE", 1)
    folders = [world.add() for _ in range(2)]
    world.days_later(8)
    assert [len(read_usage(folder)) < LINES for folder in folders] == [True, False]
    world.chore.tidy()
    assert all(len(read_usage(folder)) < LINES for folder in folders)


def test_what_is_no_file_of_samples_is_left_alone(world):
    over = world.add()
    packed, target = Path(over.packed_usage), Path(world.root, "secret")
    packed.rename(target)
    packed.symlink_to(target)
    before = target.read_bytes()
    (world.root / "7").write_text("no folder")
    (world.root / "words").mkdir()
    world.days_later(8)
    assert (target.read_bytes(), packed.is_symlink()) == (before, True)
