"""The times of steps reach their file; nothing about them can fail a training."""
# ruff: noqa: INP001, PT009, S101, SLF001  # unittest on a bare Python: no pytest, no package

from __future__ import annotations

import json
import os
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from trainshed_trainer import checkpoint_saver, progress, steps


class Undecided:
    """As an array is: whether it equals something is no one answer."""

    def __eq__(self, other: object) -> bool:
        """See numpy: it raises where somebody wants a truth."""
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


class Whole:
    """As numpy's integers are: one to Python, none to JSON."""

    def __init__(self, value: int) -> None:
        """``value`` is what it stands for."""
        self._value = value

    def __index__(self) -> int:
        """See operator.index."""
        return self._value

    def __sub__(self, other: Whole) -> Whole:
        """See numpy: differences are such numbers too."""
        return Whole(self._value - other._value)

    def __radd__(self, other: int) -> Whole:
        """See numpy: and so are sums."""
        return Whole(other + self._value)


class Steps(unittest.TestCase):
    """One file, one process."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "steps.json")
        self.addCleanup(steps._TIMES.clear)
        patched = mock.patch.dict(os.environ, {"TRAINSHED_STEPS_FILE": str(self.file)})
        patched.start()
        self.addCleanup(patched.stop)

    def written(self) -> dict[str, Any]:
        self.times().write()
        report: dict[str, Any] = json.loads(self.file.read_text())
        return report

    def times(self) -> steps.StepTimes:
        times = steps.step_times()
        assert times is not None
        return times

    def test_progress_tells_steps(self) -> None:
        for step in range(5):
            progress(step)
        report = self.written()
        self.assertEqual((report["steps"], len(report["first"])), (4, 4))

    def test_what_is_no_whole_number_is_no_step_and_fails_nobody(self) -> None:
        odd: Any = ("3", 3.5, [3], b"3", float("nan"))
        for step in odd:
            progress(step)
        self.assertEqual(self.written()["steps"], 0)

    def test_a_value_that_no_file_can_hold_fails_nobody(self) -> None:
        endless: dict[str, Any] = {}
        endless["self"] = endless
        odd: Any = ((Undecided(), 1), (1, endless))
        for number, (step, value) in enumerate(odd):
            with mock.patch.dict(os.environ, {"TRAINSHED_PROGRESS_FILE": f"{self.file}{number}"}):
                self.assertFalse(progress(step, 2, value=value))

    def test_whole_numbers_of_other_libraries_are_steps(self) -> None:
        some: Any = (Whole(3), Whole(5))
        for step in some:
            progress(step)
        self.assertEqual(self.written()["steps"], 2)

    def test_a_report_that_is_no_json_fails_nobody(self) -> None:
        times = steps.StepTimes(self.file)
        times.describe(parameters=Whole(3))
        times.note()
        self.assertFalse(self.file.exists())

    def test_time_is_shared_out_where_numbers_jump(self) -> None:
        times = steps.StepTimes(self.file)
        clock = [100.0, 110.0]
        with mock.patch("time.monotonic", side_effect=clock):
            times.note(0)
            times.note(50, waited_s=5.0)
        times.write()
        report = json.loads(self.file.read_text())
        self.assertEqual((report["steps"], report["first"]), (50, [[0.2, 0.1]]))

    def test_a_count_that_begins_anew_is_no_step(self) -> None:
        for step in (7, 8, 0, 1, 1):
            progress(step)
        self.assertEqual(self.written()["steps"], 2)

    def test_numbers_of_steps_are_those_of_the_job(self) -> None:
        for step in (1000, 1001, 1005, 3, 4, 4):
            progress(step)
        report = self.written()
        names = ("first_step", "last_step", "numbered", "checkpoint_step")
        self.assertEqual([report[name] for name in names], [1000, 4, 6, None])

    def test_a_number_that_no_training_reaches_is_no_step(self) -> None:
        odd: Any = (5, 10**300, -3, 10**16, 6, float("nan"), 7)
        for step in odd:
            progress(step)
        report = self.written()
        self.assertEqual((report["first_step"], report["last_step"]), (5, 7))
        self.assertLess(report["steps"], 10)

    def test_numbers_are_recorded_although_hooks_record_times(self) -> None:
        self.times().describe()
        self.times().note(1)
        progress(41)
        self.times().note(2)
        report = self.written()
        self.assertEqual((report["first_step"], report["steps"]), (41, 1))

    def test_a_saved_checkpoint_is_in_the_file_at_once(self) -> None:
        saver = checkpoint_saver(self.file.parent)
        began_at = time.time()
        saver.save(200, lambda out: out.write(b"weights"))
        report = self.written()
        self.assertEqual(report["checkpoint_step"], 200)
        self.assertGreaterEqual(report["checkpoint_at"], began_at)

    def test_a_stall_is_what_exceeds_the_median_without_saving(self) -> None:
        clock = iter([*range(10, 40), 140.0, 141.0, 241.0, 242.0])
        with mock.patch("time.monotonic", side_effect=clock):
            for _ in range(32):
                self.times().note()
            self.times().add_saving(100.0)
            for _ in range(2):
                self.times().note()
        report = self.written()
        self.assertEqual((report["stalled_s"], report["saving_s"]), (100.0, 100.0))

    def test_what_is_no_duration_of_saving_does_not_count(self) -> None:
        odd: Any = ("x", None, float("nan"), -1, 10**400, [1])
        for step, saving_s in enumerate(odd):
            progress(step, saving_s=saving_s)
        report = self.written()
        self.assertEqual((report["saving_s"], report["last_step"]), (0.0, len(odd) - 1))

    def test_times_do_not_jump_with_the_clock(self) -> None:
        clock = mock.patch("time.time", side_effect=(1e9, 5.0))
        with clock, mock.patch("time.monotonic", side_effect=(100.0, 107.0)):
            self.times().note()
            self.times().note()
        report = self.written()
        self.assertEqual((report["first_at"], report["last_at"]), (1e9, 1e9 + 7))

    def test_only_the_first_and_the_last_are_kept(self) -> None:
        times = self.times()
        for _ in range(3 * steps.KEPT):
            times.note()
        report = self.written()
        self.assertEqual(report["steps"], 3 * steps.KEPT - 1)
        self.assertEqual({len(report["first"]), len(report["recent"])}, {steps.KEPT})

    def test_other_processes_of_a_replica_are_silent(self) -> None:
        with mock.patch.dict(os.environ, {"LOCAL_RANK": "1"}):
            self.assertIsNone(steps.step_times())

    def test_samples_are_those_of_all_processes_of_a_replica(self) -> None:
        for processes, samples in (("8", 8 * 32), ("", 32), ("many", 32)):
            with mock.patch.dict(os.environ, {"LOCAL_WORLD_SIZE": processes}):
                steps._TIMES.clear()
                for _ in range(2):
                    self.times().note(samples=32)
                self.assertEqual(self.written()["samples"], samples)

    def test_a_file_that_cannot_be_written_fails_nobody(self) -> None:
        with mock.patch.dict(os.environ, {"TRAINSHED_STEPS_FILE": "/proc/self/none/steps.json"}):
            self.times().write()
            progress(1)

    def test_nothing_is_noted_outside(self) -> None:
        with mock.patch.dict(os.environ):
            del os.environ["TRAINSHED_STEPS_FILE"]
            self.assertIsNone(steps.step_times())
            progress(1)
