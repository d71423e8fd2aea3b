"""Metrics, progress and heartbeats reach their files; with unittest, to run on a bare Python."""
# ruff: noqa: INP001, PT009, PT027  # unittest on a bare Python: no pytest, no package

from __future__ import annotations

import fractions
import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from trainshed_trainer import heartbeat, metrics, progress, report_metric, vitals


class InAFolder(unittest.TestCase):
    """A folder, an environment and a memory of its own for each test."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        for patch in (
            mock.patch.dict(os.environ),
            mock.patch.dict(metrics._LINES, clear=True),  # noqa: SLF001  # one process, many tests
            mock.patch.dict(vitals._WRITTEN_AT, clear=True),  # noqa: SLF001  # the same
        ):
            patch.start()
            self.addCleanup(patch.stop)
        for name in ("CLOUD_ML_HP_METRIC_FILE", "CLOUD_ML_TRIAL_ID", "TRAINSHED_PROGRESS_FILE"):
            os.environ.pop(name, None)


class Metrics(InAFolder):
    """The file of cloudml-hypertune (docs/sources/vertex.md 10.1)."""

    def setUp(self) -> None:
        super().setUp()
        self.file = self.folder / "deep" / "output.metric"

    def ask(self) -> None:
        os.environ["CLOUD_ML_HP_METRIC_FILE"] = str(self.file)
        os.environ["CLOUD_ML_TRIAL_ID"] = "7"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def test_a_line_has_the_fields_of_hypertune_in_their_order(self) -> None:
        self.ask()
        self.assertTrue(report_metric("acc", 0.5, step=10))
        (line,) = self.lines()
        self.assertIsInstance(line.pop("timestamp"), float)
        expected = {"acc": "0.5", "checkpoint_path": "", "global_step": "10", "trial": "7"}
        self.assertEqual(line, expected)
        keys = list(json.loads(self.file.read_text()))
        self.assertEqual(keys, sorted(keys))

    def test_any_number_will_do_and_the_step_may_be_left_out(self) -> None:
        self.ask()
        for value in (1, fractions.Fraction(1, 4), float("nan")):
            report_metric("acc", value, checkpoint_path="gs://b/c")
        self.assertEqual([line["acc"] for line in self.lines()], ["1.0", "0.25", "nan"])
        self.assertEqual({line["global_step"] for line in self.lines()}, {"0"})
        self.assertEqual({line["checkpoint_path"] for line in self.lines()}, {"gs://b/c"})

    def test_the_last_hundred_stay_over_a_restart_too(self) -> None:
        self.ask()
        for step in range(70):
            report_metric("acc", step, step)
        metrics._LINES.clear()  # noqa: SLF001  # as in a new process
        for step in range(70, 110):
            report_metric("acc", step, step)
        steps = [int(line["global_step"]) for line in self.lines()]
        self.assertEqual(steps, list(range(10, 110)))

    def test_half_a_line_of_another_writer_is_dropped(self) -> None:
        self.ask()
        self.file.parent.mkdir()
        self.file.write_text('{"acc": "1.0", "trial": "7"}\n{"acc": "2')
        report_metric("acc", 3)
        self.assertEqual([line["acc"] for line in self.lines()], ["1.0", "3.0"])

    def test_a_tag_that_would_hide_a_field_is_refused_everywhere(self) -> None:
        for tag in ("trial", "timestamp", "global_step", "checkpoint_path", "", " "):
            with self.subTest(tag), self.assertRaises(ValueError):
                report_metric(tag, 1)

    def test_outside_of_a_trial_nobody_wants_to_know(self) -> None:
        self.assertFalse(report_metric("acc", 1))

    def test_a_trial_without_a_file_has_the_services_own(self) -> None:
        os.environ["CLOUD_ML_TRIAL_ID"] = "2"
        with mock.patch("trainshed_trainer.metrics.DEFAULT_FILE", str(self.file)):
            self.assertTrue(report_metric("acc", 1))
        self.assertEqual([line["trial"] for line in self.lines()], ["2"])
        self.assertEqual(metrics.DEFAULT_FILE, "/var/hypertune/output.metric")


class Progress(InAFolder):
    """The file whose time of change is the heartbeat."""

    def setUp(self) -> None:
        super().setUp()
        self.file = self.folder / "progress" / "worker-0"
        self.now = 0.0
        clock = mock.Mock(monotonic=lambda: self.now)
        patch = mock.patch("trainshed_trainer.vitals.time", clock)
        patch.start()
        self.addCleanup(patch.stop)

    def ask(self) -> None:
        os.environ["TRAINSHED_PROGRESS_FILE"] = str(self.file)

    def test_progress_is_json(self) -> None:
        self.ask()
        self.assertTrue(progress(step=3, total=9, loss=fractions.Fraction(1, 2), phase=Path("a")))
        expected = {"step": 3, "total": 9, "loss": 0.5, "phase": "a"}
        self.assertEqual(json.loads(self.file.read_text()), expected)
        self.assertEqual([path.name for path in self.file.parent.iterdir()], ["worker-0"])

    def test_the_file_changes_once_a_second_and_at_the_last_step(self) -> None:
        self.ask()
        written = []
        for step in range(1, 11):
            self.now = step * 0.3
            written.append(progress(step=step, total=10))
        expected = [step in (1, 5, 9, 10) for step in range(1, 11)]
        self.assertEqual(written, expected)

    def test_a_heartbeat_changes_the_time_and_not_the_text(self) -> None:
        self.ask()
        self.assertTrue(heartbeat())
        self.assertEqual(self.file.read_text(), "")
        self.now = 5.0
        progress(step=1)
        os.utime(self.file, (1000, 1000))
        self.assertFalse(heartbeat())
        self.assertEqual(self.file.stat().st_mtime, 1000)
        self.now = 6.0
        self.assertTrue(heartbeat())
        self.assertGreater(self.file.stat().st_mtime, 1000)
        self.assertEqual(json.loads(self.file.read_text()), {"step": 1})

    def test_outside_of_trainshed_nothing_happens(self) -> None:
        self.assertFalse(heartbeat())
        self.assertFalse(progress(step=1))

    def test_a_place_that_cannot_be_written_fails_nobody(self) -> None:
        self.ask()
        self.file.parent.write_text("a file where the folder should be")
        self.assertFalse(heartbeat())
        self.now = 2.0
        self.assertFalse(progress(step=1))


if __name__ == "__main__":
    unittest.main()
