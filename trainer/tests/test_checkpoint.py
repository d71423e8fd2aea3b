"""Checkpoints are whole or absent; written with unittest, to run on a bare Python."""
# ruff: noqa: INP001, PT009, PT027  # unittest on a bare Python: no pytest, no package

from __future__ import annotations

import os
import stat
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import BinaryIO
from unittest import mock

from trainshed_trainer import latest_checkpoint, local_path, save_atomically


class InAFolder(unittest.TestCase):
    """A folder of its own for each test."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def put(self, name: str, content: bytes = b"x") -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


class SaveAtomically(InAFolder):
    """Temporary file, fsync, rename."""

    def test_the_file_holds_what_was_written(self) -> None:
        path = save_atomically(self.folder / "deep" / "a.bin", lambda out: out.write(b"whole"))
        self.assertEqual(path.read_bytes(), b"whole")
        self.assertEqual([p.name for p in path.parent.iterdir()], ["a.bin"])

    def test_a_failing_writer_leaves_the_old_file_and_nothing_else(self) -> None:
        def half(out: BinaryIO) -> None:
            out.write(b"ha")
            raise KeyboardInterrupt

        path = self.put("a.bin", b"old")
        with self.assertRaises(KeyboardInterrupt):
            save_atomically(path, half)
        self.assertEqual(path.read_bytes(), b"old")
        self.assertEqual(list(self.folder.iterdir()), [path])

    def test_until_the_writer_is_done_nobody_sees_a_new_checkpoint(self) -> None:
        checkpoints = []

        def look(out: BinaryIO) -> None:
            out.write(b"a")
            out.flush()
            checkpoints.append(latest_checkpoint(self.folder))

        path = save_atomically(self.folder / "step-1", look)
        self.assertEqual(checkpoints, [None])
        self.assertEqual(latest_checkpoint(self.folder), path)

    @unittest.skipIf(os.name == "nt", "file modes are POSIX")
    def test_the_mode_is_the_one_that_any_new_file_has(self) -> None:
        path = save_atomically(self.folder / "a", lambda out: out.write(b"x"))
        modes = {stat.S_IMODE(p.stat().st_mode) for p in (path, self.put("b"))}
        self.assertEqual(len(modes), 1)


class LatestCheckpoint(InAFolder):
    """The newest whole file."""

    def test_numbers_are_compared_as_numbers(self) -> None:
        for step in (9, 10, 2):
            self.put(f"step-{step}.pt")
        self.assertEqual(latest_checkpoint(self.folder, "step-*.pt"), self.folder / "step-10.pt")

    def test_without_numbers_the_last_one_written_is_the_newest(self) -> None:
        for age, name in enumerate(("new", "old", "older")):
            os.utime(self.put(name), (1000 - age, 1000 - age))
        self.assertEqual(latest_checkpoint(self.folder), self.folder / "new")

    def test_torn_files_and_other_names_are_skipped(self) -> None:
        whole = self.put("step-1.pt")
        self.put("step-2.pt", b"")
        for name in (
            ".step-3.pt.0a1b2c3d.partial",
            "step-4.pt.tmp",
            "tmp-step-5.pt",
            "step-6.tmp-1",
        ):
            self.put(name)
        self.put("step-7.pt", b"PK\x03\x04 and no end")
        self.put("other-9.pt")
        self.assertEqual(latest_checkpoint(self.folder, "step-*"), whole)
        (self.folder / "other-9.pt").unlink()
        (self.folder / "tmp-step-5.pt").rename(self.folder / "x.orbax-checkpoint-tmp-5")
        self.assertEqual(latest_checkpoint(self.folder), whole)

    def test_a_whole_archive_is_taken(self) -> None:
        with zipfile.ZipFile(self.folder / "step-8.npz", "w") as archive:
            archive.writestr("a", "1")
        whole = self.folder / "step-8.npz"
        torn = self.put("step-9.npz", whole.read_bytes()[:-30])
        self.assertEqual(latest_checkpoint(self.folder), whole)
        torn.write_bytes(whole.read_bytes())
        self.assertEqual(latest_checkpoint(self.folder), torn)

    def test_a_numbered_folder_counts_unless_it_says_that_it_is_torn(self) -> None:
        for name in ("step-1", "step-2.partial", "step-3", "step-4", "logs"):
            (self.folder / name).mkdir()
        for name in ("step-1/a", "step-2.partial/a", "step-3/a", "step-3/b.partial", "logs/a"):
            self.put(name)
        self.assertEqual(latest_checkpoint(self.folder), self.folder / "step-1")
        (self.folder / "step-3" / "b.partial").rename(self.folder / "step-3" / "b")
        self.assertEqual(latest_checkpoint(self.folder), self.folder / "step-3")

    def test_nothing_there_is_none(self) -> None:
        self.assertIsNone(latest_checkpoint(self.folder))
        self.assertIsNone(latest_checkpoint(self.folder / "absent"))
        self.assertIsNone(latest_checkpoint(self.folder, "step-*"))


class WithoutADirectory(InAFolder):
    """The job's own directory of checkpoints, wherever it was named."""

    def setUp(self) -> None:
        super().setUp()
        before = Path.cwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)

    def newest(self, environ: dict[str, str], *argv: str) -> Path | None:
        with mock.patch.dict(os.environ, environ), mock.patch.object(sys, "argv", ["x", *argv]):
            return latest_checkpoint()

    def test_a_variable_wins_over_the_job_dir_and_that_over_the_working_directory(self) -> None:
        os.environ.pop("AIP_CHECKPOINT_DIR", None)
        paths = ("checkpoints/step-1", "job/checkpoints/step-2", "vertex/step-3")
        here, job, vertex = (save_atomically(path, lambda out: out.write(b"x")) for path in paths)
        argv = ("--job-dir", "job")
        self.assertEqual(self.newest({}), here)
        self.assertEqual(self.newest({}, *argv), job)
        self.assertEqual(self.newest({"AIP_CHECKPOINT_DIR": "vertex/"}, *argv), vertex)

    def test_a_bucket_is_looked_for_where_it_is_mounted(self) -> None:
        uri = {"AIP_CHECKPOINT_DIR": "gs://bucket/run/checkpoints/"}
        with self.assertRaises(ValueError) as caught:
            self.newest(uri)
        self.assertIn("gs://bucket/run/checkpoints/", str(caught.exception))
        with mock.patch("trainshed_trainer.checkpoint.MOUNT", str(self.folder)):
            (self.folder / "bucket").mkdir()
            self.assertIsNone(self.newest(uri))
            saved = save_atomically(
                "gs://bucket/run/checkpoints/step-4", lambda out: out.write(b"x")
            )
            self.assertEqual(saved, self.folder / "bucket/run/checkpoints/step-4")
            self.assertEqual(self.newest(uri), saved)

    def test_a_job_is_told_where_its_buckets_are(self) -> None:
        (self.folder / "bucket").mkdir()
        with mock.patch.dict(os.environ, {"TRAINSHED_BUCKETS": str(self.folder)}):
            self.assertEqual(local_path("gs://bucket/run"), self.folder / "bucket/run")
            self.assertEqual(local_path("runs"), Path("runs"))
            with self.assertRaises(ValueError):
                local_path("gs://another/run")


if __name__ == "__main__":
    unittest.main()
