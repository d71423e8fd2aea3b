"""Checkpoints are whole or absent; written with unittest, to run on a bare Python."""
# ruff: noqa: D102, INP001, PT009, PT027  # unittest on a bare Python: no pytest, no package

from __future__ import annotations

import os
import stat
import tempfile
import unittest
from pathlib import Path
from typing import BinaryIO

from trainshed_trainer import latest_checkpoint, save_atomically


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
        seen = []

        def look(out: BinaryIO) -> None:
            out.write(b"a")
            out.flush()
            seen.append(latest_checkpoint(self.folder))

        path = save_atomically(self.folder / "step-1", look)
        self.assertEqual(seen, [None])
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

    def test_torn_files_folders_and_other_names_are_skipped(self) -> None:
        whole = self.put("step-1.pt")
        self.put("step-2.pt", b"")
        self.put(".step-3.pt.0a1b2c3d.partial")
        self.put("other-9.pt")
        (self.folder / "step-8.pt").mkdir()
        self.assertEqual(latest_checkpoint(self.folder, "step-*.pt"), whole)
        (self.folder / "other-9.pt").unlink()
        self.assertEqual(latest_checkpoint(self.folder), whole)

    def test_nothing_there_is_none(self) -> None:
        self.assertIsNone(latest_checkpoint(self.folder))
        self.assertIsNone(latest_checkpoint(self.folder / "absent"))
        self.assertIsNone(latest_checkpoint(None))


if __name__ == "__main__":
    unittest.main()
