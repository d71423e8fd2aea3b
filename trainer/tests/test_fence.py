"""An older attempt saves nothing where a newer one has begun; unittest, to run on a bare Python."""
# ruff: noqa: INP001, PT009, PT027, S101, S603  # unittest on a bare Python: no package

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import BinaryIO
from unittest import mock

from trainshed_trainer import (
    CheckpointSaver,
    NewerAttemptError,
    checkpoint_saver,
    latest_checkpoint,
)

JOB = "123456789012"
#: Saves at each line that it reads, and says what came of it.
SAVING = """
import sys
from trainshed_trainer import NewerAttemptError, checkpoint_saver
try:
    saver = checkpoint_saver(sys.argv[1])
    print("made", flush=True)
    for line in sys.stdin:
        saver.save(int(line), lambda out: out.write(line.encode()))
        print("saved", flush=True)
except NewerAttemptError as error:
    sys.exit(str(error))
"""


class InAFolder(unittest.TestCase):
    """A folder of its own for each test, which does not exist yet."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name) / "checkpoints"

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def saver(self, attempt: int, job: str = JOB) -> CheckpointSaver:
        with mock.patch.dict(os.environ, TRAINSHED_JOB=f"{job}/{attempt}"):
            return checkpoint_saver(self.folder)


class Attempts(InAFolder):
    """The directory belongs to the newest attempt, from when its saver was made."""

    def test_an_older_one_saves_nothing_and_removes_nothing(self) -> None:
        old = self.saver(1)
        for step in (1, 2, 3):
            old.save(step, lambda out: out.write(b"old"))
        new = self.saver(2)
        before = self.names()
        for _ in range(2):
            with self.assertRaises(NewerAttemptError) as caught:
                old.save(4, lambda _: self.fail("it writes"))
        self.assertIn("attempt 2 of this job", str(caught.exception))
        self.assertIn("attempt 1 must not save", str(caught.exception))
        self.assertEqual(self.names(), before)
        self.assertEqual(new.save(5, lambda out: out.write(b"new")), latest_checkpoint(self.folder))

    def test_one_that_is_older_from_the_start_is_told_at_once(self) -> None:
        self.saver(10)  # numbers, not words: 10 is newer than 9
        with self.assertRaises(NewerAttemptError):
            self.saver(9)
        self.saver(10)
        self.saver(11)
        self.assertEqual(self.names(), [f".attempt-{JOB}-11"])

    def test_one_that_is_writing_when_a_newer_one_begins_leaves_nothing(self) -> None:
        old = self.saver(1)

        def writer(out: BinaryIO) -> None:
            out.write(b"old")
            self.saver(2)

        with self.assertRaises(NewerAttemptError):
            old.save(7, writer)
        self.assertEqual(self.names(), [f".attempt-{JOB}-2"])

    def test_one_that_is_overtaken_at_the_last_instant_is_told(self) -> None:
        old = self.saver(1)
        old.save(1, lambda out: out.write(b"old"))
        replace = Path.replace

        def overtaken(path: Path, target: Path) -> Path:
            if "checkpoint" in path.name:  # the second look has been
                self.saver(2)
            return replace(path, target)

        with mock.patch.object(Path, "replace", overtaken), self.assertRaises(NewerAttemptError):
            old.save(7, lambda out: out.write(b"old"))
        self.assertEqual(self.names(), [f".attempt-{JOB}-2", "checkpoint-1", "checkpoint-7"])

    def test_replicas_of_one_attempt_and_other_jobs_do_not_mind_each_other(self) -> None:
        savers = [self.saver(3), self.saver(3), self.saver(1, job="99")]
        for step, saver in enumerate(savers):
            saver.save(step, lambda out: out.write(b"x"))
        self.assertEqual(
            self.names(),
            [f".attempt-{JOB}-3", ".attempt-99-1", *(f"checkpoint-{n}" for n in range(3))],
        )

    def test_a_removed_directory_is_entered_again(self) -> None:
        saver = self.saver(2)
        (self.folder / f".attempt-{JOB}-2").unlink()
        self.folder.rmdir()
        saver.save(1, lambda out: out.write(b"x"))
        self.assertEqual(self.names(), [f".attempt-{JOB}-2", "checkpoint-1"])

    def test_names_that_are_almost_marks_are_none(self) -> None:
        self.folder.mkdir()
        for name in ("0", "x", "7.partial", "07", "-7"):
            (self.folder / f".attempt-{JOB}-{name}").touch()
        (self.folder / f".attempt-{JOB}9-7").touch()
        self.saver(1).save(1, lambda out: out.write(b"x"))
        self.assertEqual(len(self.names()), 6 + 2)


class Outside(InAFolder):
    """Who is in no job has no attempt."""

    def test_nothing_is_touched_before_something_is_saved(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop("TRAINSHED_JOB", None)
            saver = checkpoint_saver(self.folder)
        self.assertFalse(self.folder.exists())
        saver.save(1, lambda out: out.write(b"x"))
        self.assertEqual(self.names(), ["checkpoint-1"])

    def test_an_attempt_that_makes_no_sense_is_refused_by_name(self) -> None:
        for text in ("7", "7/", "7/0", "x/1", "7/1/2", "../7/1", "7/1\n"):
            said = self.assertRaisesRegex(ValueError, "TRAINSHED_JOB")
            with self.subTest(text), mock.patch.dict(os.environ, TRAINSHED_JOB=text), said:
                checkpoint_saver(self.folder)

    @unittest.skipIf(os.name == "nt" or os.geteuid() == 0, "root may write everywhere")
    def test_a_replica_that_saves_nothing_needs_no_right_to(self) -> None:
        self.folder.mkdir(mode=0o500)
        saver = self.saver(1)
        with self.assertRaises(PermissionError):
            saver.save(1, lambda out: out.write(b"x"))


class TwoProcesses(InAFolder):
    """A program that was thought dead goes on beside its job's next attempt."""

    def start(self, attempt: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", SAVING, str(self.folder)],
            env={**os.environ, "TRAINSHED_JOB": f"{JOB}/{attempt}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        self.addCleanup(self.end, process)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "made\n")
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()

    def test_the_newer_one_goes_on_and_the_older_one_is_refused(self) -> None:
        old = self.start(1)
        assert old.stdin is not None
        assert old.stdout is not None
        old.stdin.write("10\n")
        old.stdin.flush()
        self.assertEqual(old.stdout.readline(), "saved\n")
        new = self.start(2)
        _, error = old.communicate("20\n")
        self.assertEqual(old.returncode, 1)
        self.assertIn("attempt 2 of this job writes into", error)
        said, _ = new.communicate("15\n")
        self.assertEqual((said, new.returncode), ("saved\n", 0))
        self.assertEqual(self.names(), [f".attempt-{JOB}-2", "checkpoint-10", "checkpoint-15"])


if __name__ == "__main__":
    unittest.main()
