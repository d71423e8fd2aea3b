"""Curves of event files of any job: only new bytes are read, and nothing in them does harm."""

import math
import os
import time

import pytest

from engines.events import event, first, record, simple, tensor
from trainshed.engines.supervise.watch import event_folders
from trainshed.files.beneath import PathBeneath
from trainshed.service.figures import event_curves
from trainshed.service.figures.answers import AttemptSpan
from trainshed.service.figures.event_curves import EventCurves, LogFolder

PLACED_S = 1_764_500_000
ATTEMPTS = [
    AttemptSpan(attempt=1, start=PLACED_S, end=PLACED_S + 100),
    AttemptSpan(attempt=2, start=PLACED_S + 110, end=None),
]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "bucket" / "out"


class Curves(EventCurves):
    """The curves of one folder, for which each call searches for new files."""

    def __init__(self, folder, attempt=None):
        super().__init__()
        self.folders = [LogFolder(PathBeneath(folder.parent, folder.name), attempt)]


@pytest.fixture
def curves(folder, monkeypatch):
    monkeypatch.setattr(event_curves, "_SEARCH_S_MIN", 0)
    monkeypatch.setattr(event_curves, "_SEARCH_SHARE", math.inf)
    folder.mkdir(parents=True)
    return Curves(folder)


def write(folder, *records, run="train", at_s=PLACED_S + 10, name="host.1.0"):
    path = folder / run / f"events.out.tfevents.{at_s}.{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(records))
    return path


def losses(*values, first_step=0):
    return [
        record(event(simple("loss", value), step=step, at_s=PLACED_S + 20.0 + step))
        for step, value in enumerate(values, first_step)
    ]


def read(curves, *names, points_max=2000, limit_s=60.0):
    is_complete = curves.read(curves.folders, ATTEMPTS, time.monotonic() + limit_s)
    series = {(c.name, c.run, c.attempt): c.points for c in curves.curves(names, points_max)}
    return is_complete, series, " ".join(curves.left_out())


def test_scalars_are_curves_by_name_run_and_attempt(curves, folder):
    write(folder, first(), *losses(4, 3))
    write(folder, record(event(tensor("accuracy", 0.5), step=7)), run="eval", at_s=PLACED_S + 111)
    is_complete, series, left_out = read(curves)
    assert (is_complete, left_out) == (True, "")
    assert series["loss", "train", 1] == [
        (0, PLACED_S + 20, 4, 4, 4),
        (1, PLACED_S + 21, 3, 3, 3),
    ]
    assert series["accuracy", "eval", 2][0][2:] == (0.5, 0.5, 0.5)
    assert [*read(curves, "accuracy")[1]] == [("accuracy", "eval", 2)]


def test_a_later_call_reads_only_what_is_new(curves, folder, monkeypatch):
    write(folder, *losses(4, 3))
    assert len(read(curves)[1]["loss", "train", 1]) == 2
    offsets = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *args: offsets.append(args[2]) or pread(*args))
    assert len(read(curves)[1]["loss", "train", 1]) == 2
    assert offsets == []
    path = write(folder, *losses(2, first_step=2))
    size = path.stat().st_size
    assert len(read(curves)[1]["loss", "train", 1]) == 3
    assert min(offsets) > size // 2


def test_a_call_ends_at_its_time_and_the_next_one_continues(curves, folder):
    write(folder, *losses(3, 2, 1))
    is_complete, series, _ = read(curves, limit_s=-1)
    assert not is_complete
    assert len(series["loss", "train", 1]) == 1
    assert "the next call returns more" in curves.describe_rest()
    is_complete, series, _ = read(curves)
    assert is_complete
    assert len(series["loss", "train", 1]) == 3


def test_a_torn_record_is_read_when_the_rest_of_it_is_there(curves, folder):
    whole = losses(5)[0]
    path = write(folder, whole[:20])
    assert read(curves)[1] == {}
    with path.open("ab") as file:
        file.write(whole[20:])
    assert [*read(curves)[1]] == [("loss", "train", 1)]


def test_a_file_that_was_written_again_is_read_again(curves, folder):
    path = write(folder, *losses(1, 1, 1))
    read(curves)
    path.write_bytes(b"".join(losses(9)))
    assert [point[3] for point in read(curves)[1]["loss", "train", 1]] == [9]


def test_a_file_older_than_the_job_is_of_another_job(curves, folder):
    old = write(folder, *losses(1), at_s=PLACED_S - 3600)
    _, series, left_out = read(curves)
    assert series == {}
    assert "1 event files are older than the job's first attempt" in left_out
    old.unlink()
    assert not read(curves)[2], "a job that writes many such files needs no memory for them"


def test_values_that_are_not_numbers_are_left_out_and_said(curves, folder):
    write(folder, *losses(1.0, math.nan, math.inf, 2.0))
    _, series, left_out = read(curves)
    assert [point[3] for point in series["loss", "train", 1]] == [1, 2]
    assert "loss of train has 2 values that are NaN or infinite, the first at step 1" in left_out


def test_times_that_are_none_are_that_of_the_file(curves, folder):
    for at_s in (math.nan, math.inf, -1.0, 1e300):
        write(folder, record(event(simple("loss", 1), at_s=at_s)))
    times = {point[1] for point in read(curves)[1]["loss", "train", 1]}
    assert times == {PLACED_S + 10}


def test_links_and_damaged_files_are_said_and_do_not_hide_the_others(curves, folder, tmp_path):
    secret = tmp_path / "events.out.tfevents.1764500010.secret"
    secret.write_bytes(b"".join(losses(7)))
    write(folder, *losses(1))
    (folder / f"events.out.tfevents.{PLACED_S + 11}.link").symlink_to(secret)
    (folder / "linked").symlink_to(tmp_path)
    write(folder, b"\0" * 100, run="zeros")
    torn = bytearray(losses(5)[0])
    torn[-1] ^= 0xFF
    write(folder, bytes(torn), run="bad")
    _, series, left_out = read(curves)
    assert [*series] == [("loss", "train", 1)]
    assert "it is a symbolic link" in left_out
    assert "it is damaged at byte 0" in left_out
    assert "1 damaged records of event files were skipped" in left_out


def test_a_gigabyte_without_records_is_read_at_once(curves, folder):
    path = write(folder, *losses(1))
    os.truncate(path, 1 << 30)
    assert len(read(curves)[1]["loss", "train", 1]) == 1
    huge = folder / f"events.out.tfevents.{PLACED_S + 12}.huge"
    huge.write_bytes(record(b"x" * 40)[:12])
    os.truncate(huge, 1 << 30)
    assert read(curves)[0]


@pytest.mark.full
def test_a_million_records_are_read_in_several_calls_and_keep_their_extremes(curves, folder):
    """Steps that go back every thousand records, as of a trainer that runs in a loop."""
    block = b"".join(losses(*range(1000)))
    path = write(folder, block * 500, *losses(-7.0, 5000.0), block * 500)
    calls, is_complete = 0, False
    while not is_complete:
        is_complete, series, _ = read(curves, limit_s=0.5)
        calls += 1
    points = series["loss", "train", 1]
    assert calls > 1
    assert len(points) <= 2000
    assert (min(point[2] for point in points), max(point[4] for point in points)) == (-7, 5000)
    assert path.stat().st_size > 30_000_000


def test_more_curves_than_the_limit_are_said(curves, folder, monkeypatch):
    monkeypatch.setattr(event_curves, "CURVES_MAX", 3)
    write(folder, *(record(event(simple(f"tag{n}", n), step=n)) for n in range(9)))
    _, series, left_out = read(curves)
    assert len(series) == 3
    assert "over 3 curves" in left_out


def test_all_curves_of_a_job_together_have_a_limit(curves, folder, monkeypatch):
    monkeypatch.setattr(event_curves, "KEPT_POINTS_MAX", 20)
    for step in range(40):
        write(folder, record(event(simple("a", step), simple("b", -step), step=step)))
    _, series, _ = read(curves)
    assert [len(points) <= 10 for points in series.values()] == [True, True]
    assert series["a", "train", 1][-1][4] == 39


def test_more_files_than_the_limit_are_said(curves, folder, monkeypatch):
    monkeypatch.setattr(event_curves, "FILES_MAX", 2)
    for number in range(3):
        write(folder, *losses(1), run=str(number))
    _, series, left_out = read(curves)
    assert len(series) == 2
    assert "not all event files are read" in left_out


def test_a_tree_with_too_many_folders_is_said(curves, folder, monkeypatch):
    monkeypatch.setattr(event_folders, "FOLDERS_MAX", 2)
    for number in range(3):
        write(folder, *losses(1), run=str(number))
    assert "not all event files are read" in read(curves)[2]


def test_a_folder_that_does_not_exist_has_no_curves(tmp_path):
    assert read(Curves(tmp_path / "none" / "out")) == (True, {}, "")


def test_a_working_folder_is_that_of_its_attempt_whatever_the_names_of_files_say(folder):
    write(folder, *losses(1), at_s=1)
    assert [*read(Curves(folder, attempt=2))[1]] == [("loss", "train", 2)]
