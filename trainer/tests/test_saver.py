"""The last few checkpoints stay, and a kill harms none; unittest, to run on a bare Python."""
# ruff: noqa: INP001, PT009, PT027, S101, S603  # unittest on a bare Python: no package

from __future__ import annotations

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import BinaryIO

from trainshed_trainer import checkpoint_saver, latest_checkpoint
from trainshed_trainer.files import try_lock

KILLS = 12
KEPT = 2
#: A slow disk may let none of the others get so far.
SAVED_S_MAX = 120
#: Saves checkpoints of a few megabytes, each with its own digest, until it is killed.
ENDLESS = f"""
import hashlib, os, sys
from trainshed_trainer import checkpoint_saver, latest_checkpoint
saver = checkpoint_saver(sys.argv[1], keep_last={KEPT}, suffix=".bin")
newest = latest_checkpoint(sys.argv[1])
step = int(newest.stem.split("-")[1]) if newest else 0
print("ready", flush=True)
while True:
    step += 1
    content = os.urandom(3_000_000)
    def write(out):
        out.write(hashlib.sha256(content).digest())
        for start in range(0, len(content), 65536):
            out.write(content[start : start + 65536])
    saver.save(step, write)
"""


class InAFolder(unittest.TestCase):
    """A folder of its own for each test."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


class KeepLast(InAFolder):
    """Only the oldest go, and only when the new one is there."""

    def test_the_last_few_by_number_stay(self) -> None:
        saver = checkpoint_saver(self.folder, keep_last=2, prefix="c", suffix=".pt")
        for step in (8, 9, 10, 11):
            path = saver.save(step, lambda out: out.write(b"x"))
            self.assertEqual(latest_checkpoint(self.folder), path)
        self.assertEqual(self.names(), ["c-10.pt", "c-11.pt"])
        self.assertEqual([path.name for path in saver.saved()], ["c-10.pt", "c-11.pt"])

    def test_nothing_that_it_did_not_name_is_removed(self) -> None:
        others = [
            "c-1",
            "c-01.pt",
            "c-1.pt.bak",
            "c-x.pt",
            "cc-1.pt",
            "c-best.pt",
            "c--1.pt",
            "C-2.pt",
        ]
        for name in others:
            (self.folder / name).write_bytes(b"mine")
        (self.folder / "c-3.pt").mkdir()
        (self.folder / "c-4.pt").symlink_to(self.folder / "c-1")
        before = self.names()
        saver = checkpoint_saver(self.folder, keep_last=1, prefix="c", suffix=".pt")
        for step in (5, 6):
            saver.save(step, lambda out: out.write(b"x"))
        self.assertEqual(self.names(), sorted([*before, "c-6.pt"]))

    def test_a_prefix_is_no_pattern(self) -> None:
        (self.folder / "axb-1").write_bytes(b"mine")
        checkpoint_saver(self.folder, keep_last=1, prefix="a.b").save(
            2, lambda out: out.write(b"x")
        )
        self.assertEqual(self.names(), ["a.b-2", "axb-1"])

    def test_the_one_just_saved_stays_where_higher_steps_lie(self) -> None:
        saver = checkpoint_saver(self.folder, keep_last=2)
        for step in (70, 80, 90, 10):
            path = saver.save(step, lambda out: out.write(b"x"))
        self.assertTrue(path.is_file())
        self.assertEqual(self.names(), ["checkpoint-10", "checkpoint-80", "checkpoint-90"])

    def test_until_the_new_one_is_there_no_old_one_goes(self) -> None:
        saver = checkpoint_saver(self.folder, keep_last=1)
        saver.save(1, lambda out: out.write(b"x"))

        def fails(out: BinaryIO) -> None:
            out.write(b"half")
            self.assertIn("checkpoint-1", self.names())
            raise OSError("no space left")

        with self.assertRaises(OSError):
            saver.save(2, fails)
        self.assertEqual(self.names(), ["checkpoint-1"])

    def test_the_same_step_again_is_replaced(self) -> None:
        saver = checkpoint_saver(self.folder)
        saver.save(1, lambda out: out.write(b"old"))
        self.assertEqual(saver.save(1, lambda out: out.write(b"new")).read_bytes(), b"new")

    def test_what_makes_no_sense_is_refused(self) -> None:
        for wrong in ({"keep_last": 0}, {"prefix": ""}, {"prefix": "../up"}, {"prefix": ".hidden"}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                checkpoint_saver(self.folder, **wrong)  # type: ignore[arg-type]
        with self.assertRaises(ValueError):
            checkpoint_saver(self.folder).save(-1, lambda out: out.write(b"x"))


class Leftovers(InAFolder):
    """What a killed writer had half written goes; what a living one writes stays."""

    def partial(self, name: str, age_s: float) -> Path:
        path = self.folder / name
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age_s,) * 2)
        return path

    @unittest.skipIf(os.name == "nt", "there are no locks of this kind")
    def test_only_abandoned_ones_of_its_own_names_go(self) -> None:
        self.partial(".checkpoint-1.0a1b2c3d.partial", 3600)
        fresh = self.partial(".checkpoint-2.0a1b2c3d.partial", 0)
        written = self.partial(".checkpoint-3.0a1b2c3d.partial", 3600)
        foreign = self.partial(".other-1.0a1b2c3d.partial", 3600)
        with written.open("rb") as held:
            self.assertTrue(try_lock(held.fileno()))
            saved = checkpoint_saver(self.folder).save(4, lambda out: out.write(b"x"))
        self.assertEqual(self.names(), sorted(p.name for p in (fresh, written, foreign, saved)))


@unittest.skipIf(os.name == "nt", "SIGKILL is POSIX")
class Killed(InAFolder):
    """SIGKILL at random moments: whatever is found afterwards is whole, and nothing gets lost."""

    def test_every_checkpoint_is_whole_and_the_newest_never_gets_older(self) -> None:
        chance = random.Random(4)  # noqa: S311  # moments, not secrets
        newest = count = 0
        for kill in range(KILLS):
            self.run_and_kill(chance.uniform(0.0, 0.15), once_it_has_saved=kill == KILLS // 2)
            checkpoint = latest_checkpoint(self.folder)
            steps = self.whole_steps()
            if checkpoint is None:
                self.assertEqual((steps, newest), ([], 0))
                continue
            self.assertEqual(int(checkpoint.stem.split("-")[1]), steps[-1])
            self.assertGreaterEqual(steps[-1], newest)
            # a kill between the name of the new one and the removal of older ones leaves one more
            self.assertLessEqual(len(steps), max(KEPT, count) + 1)
            newest, count = steps[-1], len(steps)
        self.assertGreater(newest, 0)
        saver = checkpoint_saver(self.folder, keep_last=KEPT, suffix=".bin")
        saver.save(newest + 1, lambda out: out.write(b"x"))
        self.assertEqual(len(saver.saved()), KEPT)

    def run_and_kill(self, after_s: float, *, once_it_has_saved: bool) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(self.folder)], stdout=subprocess.PIPE
        )
        with process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), b"ready\n")
            deadline = time.monotonic() + SAVED_S_MAX
            while once_it_has_saved and latest_checkpoint(self.folder) is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            time.sleep(after_s)
            process.send_signal(signal.SIGKILL)
        self.assertEqual(process.returncode, -signal.SIGKILL)

    def whole_steps(self) -> list[int]:
        steps = []
        for path in self.folder.glob("checkpoint-*.bin"):
            content = path.read_bytes()
            self.assertEqual(len(content), 3_000_032, path)
            self.assertEqual(hashlib.sha256(content[32:]).digest(), content[:32], path)
            numbers = re.findall(r"\d+", path.name)
            steps.append(int(numbers[0]))
        return sorted(steps)


if __name__ == "__main__":
    unittest.main()
