"""A notice reaches the program once, on either way; unittest, to run on a bare Python."""
# ruff: noqa: INP001, PT009, S101, S603  # unittest on a bare Python: no pytest, no package

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from trainshed_trainer import Notice

TIMEOUT_S = 60
#: Every program says when it is ready, and ends when it is told to on its standard input.
START = """
import os, signal, sys, threading
from trainshed_trainer import notice, on_notice
def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""
CALLBACK = (
    START
    + """
main = threading.get_ident()
def told(n):
    say("told", n.reason, n.message, n.until, threading.get_ident() == main)
    done.set()
done = threading.Event()
on_notice(told)
say("ready")
sys.stdin.readline()
say("late", notice().reason)
on_notice(lambda n: (say("again", n.reason), last.set()))
last = threading.Event()
last.wait(30)
"""
)
#: The watching thread has just not found the file when it appears, and the signal comes after it.
OVERTAKEN = (
    START
    + """
import time
from trainshed_trainer import notices
watch, main = notices._WATCH, threading.current_thread()
read = notices._read_notice_file
def overtaken():
    notice_in_file = read()
    if threading.current_thread() is not main and not watch._is_signalled:
        while not watch._is_installed: time.sleep(0.01)
        with open(os.environ["TRAINSHED_NOTICE_FILE"], "w") as file:
            file.write('{"reason": "maintenance"}')
        os.kill(os.getpid(), signal.SIGTERM)
        while not watch._is_signalled: time.sleep(0.01)
    return notice_in_file
notices._read_notice_file = overtaken
say("ready")
while notice() is None: time.sleep(0.01)
say("told", notice().reason)
"""
)


class Running(unittest.TestCase):
    """A program in a process of its own, with a file in which a notice may appear."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.file = Path(holder.name, "notice")

    def start(self, source: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", source],
            env={**os.environ, "TRAINSHED_NOTICE_FILE": str(self.file)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )
        self.addCleanup(self.end, process)
        self.assertEqual(self.line(process), "ready")
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.kill()
        process.communicate()

    def line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def rest(self, process: subprocess.Popen[str]) -> tuple[int, list[str]]:
        """What a program says from now on: nothing that may be read ahead with the line before."""
        output, _ = process.communicate("\n", timeout=TIMEOUT_S)
        return process.returncode, output.splitlines()

    def put(self, text: str) -> None:
        partial = self.file.with_suffix(".new")
        partial.write_text(text)
        partial.replace(self.file)


@unittest.skipIf(os.name == "nt", "SIGTERM is POSIX")
class Callbacks(Running):
    """What a program sees that asked to be called."""

    def test_a_signal_calls_back_in_another_thread_and_ends_nothing(self) -> None:
        process = self.start(CALLBACK)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.line(process), "told signal  None False")
        self.assertEqual(self.rest(process), (0, ["late signal", "again signal"]))

    def test_a_file_calls_back_with_what_it_says(self) -> None:
        process = self.start(CALLBACK)
        self.put(json.dumps({"reason": "maintenance", "message": "node a", "until": 12.5}))
        self.assertEqual(self.line(process), "told maintenance node a 12.5 False")
        self.assertEqual(self.rest(process), (0, ["late maintenance", "again maintenance"]))

    def test_file_and_signals_are_one_notice(self) -> None:
        process = self.start(CALLBACK)
        self.put(json.dumps({"reason": "cancel"}))
        for _ in range(3):
            process.send_signal(signal.SIGTERM)
        self.assertEqual(self.line(process), "told cancel  None False")
        self.assertEqual(self.rest(process), (0, ["late cancel", "again cancel"]))

    def test_a_file_that_says_nonsense_is_a_notice_all_the_same(self) -> None:
        process = self.start(CALLBACK)
        self.put("soon\n")
        self.assertEqual(self.line(process), "told unknown soon None False")

    def test_a_handler_that_was_there_is_called_too(self) -> None:
        source = (
            START
            + """
signal.signal(signal.SIGTERM, lambda *_: say("before"))
on_notice(lambda n: (say("told"), done.set()))
done = threading.Event()
say("ready")
done.wait(30)
"""
        )
        process = self.start(source)
        process.send_signal(signal.SIGTERM)
        code, lines = self.rest(process)
        self.assertEqual((code, sorted(lines)), (0, ["before", "told"]))

    def test_a_callback_that_fails_does_not_silence_the_next(self) -> None:
        source = (
            START
            + """
sys.stderr = sys.stdout
done = threading.Event()
on_notice(lambda n: 1 / 0)
on_notice(lambda n: done.set())
say("ready")
done.wait(30)
"""
        )
        process = self.start(source)
        process.send_signal(signal.SIGTERM)
        code, lines = self.rest(process)
        self.assertEqual(code, 0)
        self.assertIn("ZeroDivisionError: division by zero", lines)


@unittest.skipIf(os.name == "nt", "SIGTERM is POSIX")
class Loops(Running):
    """What a program sees that looks after every step."""

    LOOP = (
        START
        + """
import time
notice()
say("ready")
deadline = time.monotonic() + 30
while notice() is None and time.monotonic() < deadline:
    time.sleep(0.001)
say("saving", notice() and notice().reason)
"""
    )

    def test_the_loop_ends_by_itself_after_a_signal(self) -> None:
        process = self.start(self.LOOP)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.rest(process), (0, ["saving signal"]))

    def test_and_after_a_file(self) -> None:
        process = self.start(self.LOOP)
        self.put('{"reason": "timeout"}')
        self.assertEqual(self.rest(process), (0, ["saving timeout"]))

    def test_a_file_and_its_signal_that_come_while_the_file_is_looked_for(self) -> None:
        process = self.start(OVERTAKEN)
        self.assertEqual(self.rest(process), (0, ["told maintenance"]))

    def test_outside_the_main_thread_the_signal_is_left_alone_and_the_file_seen(self) -> None:
        source = (
            START
            + """
def watch():
    on_notice(lambda n: say("told", n.reason))
    say("ready")
watcher = threading.Thread(target=watch)
watcher.start()
watcher.join()
sys.stdin.readline()
"""
        )
        process = self.start(source)
        self.put('{"reason": "cancel"}')
        self.assertEqual(self.line(process), "told cancel")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_S), -signal.SIGTERM)

    def test_nobody_who_never_asked_is_changed(self) -> None:
        process = self.start(START + "say('ready'); sys.stdin.readline()")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_S), -signal.SIGTERM)


@unittest.skipUnless(hasattr(os, "fork"), "there is no fork here")
class Forked(Running):
    """Children that were forked after somebody asked, as those of a data loader are."""

    FORK = (
        START
        + """
import time
notice()
readable, writable = os.pipe()
child = os.fork()
if child == 0:
    os.close(readable)
    {in_child}
    os.write(writable, b"x")
    if {asks}:
        while notice() is None: time.sleep(0.01)
        os._exit(7)
    while True: time.sleep(0.01)
os.close(writable)
os.read(readable, 1)
os.kill(child, signal.SIGTERM)
say("ready")
sys.stdin.readline()
_, status = os.waitpid(child, 0)
say(status)
"""
    )

    def test_a_child_that_never_asked_ends_at_sigterm(self) -> None:
        process = self.start(self.FORK.format(in_child="", asks="False"))
        self.assertEqual(self.rest(process), (0, [str(int(signal.SIGTERM))]))

    def test_a_child_that_asks_gets_its_own_notice(self) -> None:
        process = self.start(self.FORK.format(in_child="notice()", asks="True"))
        self.assertEqual(self.rest(process), (0, [str(7 << 8)]))


class SecondsLeft(unittest.TestCase):
    """How long a program may go on."""

    def test_it_is_never_negative_and_unknown_where_nobody_said(self) -> None:
        self.assertIsNone(Notice("cancel").seconds_left)
        self.assertEqual(Notice("cancel", until=time.time() - 5).seconds_left, 0.0)
        left: Any = Notice("cancel", until=time.time() + 1000).seconds_left
        self.assertAlmostEqual(left, 1000, delta=100)


if __name__ == "__main__":
    unittest.main()
