"""What counts as a sign of progress, and what is reported once."""

import os
import sys
from pathlib import Path

import pytest

from trainshed.engines.supervise.watch.watch_hang import HangWatch, stacks_argv

AFTER_S = 100.0
WORKS_NS = 10_000_000_000


@pytest.fixture
def files(tmp_path):
    return [str(tmp_path / name) for name in ("chief", "worker")]


@pytest.fixture
def watch(files):
    return HangWatch(AFTER_S, files, now_s=0.0)


def beat(path, at_s):
    Path(path).touch()
    os.utime(path, (at_s, at_s))


def test_a_replica_without_any_sign_hangs_and_is_told_once(watch):
    assert watch.find_hangs(10.0, [0, 0]) == []  # of the CPU time before, nothing was known
    assert watch.find_hangs(109.0, [0, 0]) == []
    assert watch.find_hangs(111.0, [0, 0]) == [(0, 101.0), (1, 101.0)]
    assert watch.find_hangs(500.0, [0, 0]) == []


def test_cpu_time_counts_for_a_program_that_never_beats(watch):
    busy = 0
    for now in range(10, 500, 10):
        busy += WORKS_NS
        hangs = watch.find_hangs(float(now), [busy, 0])
        assert all(index == 1 for index, _ in hangs)
    assert watch.take_recovered() == []


def test_a_waiting_process_uses_a_little_of_a_processor_and_still_hangs(watch):
    hangs = []
    for now in range(10, 300, 10):
        hangs += watch.find_hangs(float(now), [now * 1_000_000, now * 1_000_000])
    assert [index for index, _ in hangs] == [0, 1]


def test_a_line_is_a_sign_and_a_hang_that_ends_is_told_once(watch):
    watch.find_hangs(1.0, [0, 0])
    assert [index for index, _ in watch.find_hangs(150.0, [0, 0])] == [0, 1]
    watch.add_output(1, 151.0)
    watch.add_output(1, 152.0)
    assert watch.take_recovered() == [1]
    assert watch.take_recovered() == []
    assert [index for index, _ in watch.find_hangs(260.0, [0, 0])] == [1]  # it hangs again


def test_a_program_that_beats_is_judged_by_its_heart_though_it_spins(watch, files):
    beat(files[0], 1)
    hangs, busy = [], 0
    for now in range(10, 400, 10):
        busy += WORKS_NS
        hangs += watch.find_hangs(float(now), [busy, busy])
    assert [index for index, _ in hangs] == [0]


def test_every_beat_is_a_sign_whatever_the_wall_says(watch, files):
    for now in range(10, 1000, 50):
        beat(files[0], 10_000 - now)  # a clock that was set back
        assert all(index != 0 for index, _ in watch.find_hangs(float(now), [0, 0]))


def test_nothing_is_claimed_where_cpu_time_is_unknown_or_the_replica_has_ended(watch):
    watch.ignore(1)
    for now in range(10, 1000, 10):
        assert watch.find_hangs(float(now), [None, 0]) == []


def test_the_stacks_are_asked_of_py_spy_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stacks_argv(1) is None
    program = tmp_path / "py-spy"
    program.touch(mode=0o755)
    assert stacks_argv(77) == [str(program), "dump", "--subprocesses", "--pid", "77"]
