"""Whatever is killed, an attempt goes on or is lost as a whole, and what is known stays true."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

from engines import attempts
from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    lines,
    marked,
    observe,
    record,
    segments,
    started,
    supervisor,
    texts,
    until,
)
from engines.support import (
    FOREVER,
    MARK,
    assert_no_survivor,
    awaiting,
    touching,
    wait_until,
    without_cgroups,
)
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.isolation.modes import SANDBOX
from trainshed.engines.local.attempts import proof, start
from trainshed.engines.local.attempts import sweep as sweeping
from trainshed.engines.local.attempts.plan_file import Preparation
from trainshed.engines.local.attempts.start import AttemptStarter, supervisor_argv
from trainshed.engines.processes import cgroup, tree
from trainshed.engines.supervise.kernel import kill
from trainshed.engines.supervise.leftovers import PID_NAMESPACE, SUBREAPER
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import HangRule
from trainshed.model.attempt import Phase


def test_an_attempt_outlives_its_server_and_the_next_one_sees_every_line_once(root, mark, tmp_path):
    half, go = tmp_path / "half", tmp_path / "go"
    code = (
        "for i in range(500): print(i, flush=True)\n"
        + touching(half)
        + awaiting(go)
        + "for i in range(500, 1000): print(i)\nexit(5)"
    )
    server = subprocess.Popen(
        [sys.executable, attempts.__file__, str(root), str(KEY.uid), mark, code],
        stdout=subprocess.PIPE,
    )
    with server:
        assert server.stdout.readline() == b"launched\n"
        wait_until(half.exists, "half of the lines are written")
        server.kill()
    engine = engine_at(root)
    assert until(engine, Phase.READY).task_names == ("master-replica-0",)
    engine.launch(KEY, marked(mark, "print('again')"), ())
    go.touch()
    assert ended(engine).outcome.exit_code == 5
    assert texts(root) == [str(i) for i in range(1000)]
    stamps = [line.stamp_ns for line in lines(root)]
    assert all(a < b for a, b in pairwise(stamps))


def test_a_killed_supervisor_is_a_lost_attempt_and_nothing_of_it_lives(root, mark, tmp_path):
    started = tmp_path / "started"
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        f"        {touching(started)}        time.sleep(600)\n"
        "time.sleep(600)"
    )
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, code, FOREVER), ())
    wait_until(started.exists, "all processes run")
    os.kill(supervisor(root), signal.SIGKILL)
    observation = until(engine, Phase.LOST)
    assert observation.outcome is None
    assert observation.fault == "its supervisor was killed"
    until(engine_at(root), Phase.LOST)
    assert_no_survivor(mark)
    engine.launch(KEY, marked(mark, "print('again')"), ())
    assert until(engine, Phase.LOST).key == KEY


def test_what_has_written_over_its_environment_is_known_and_ended_without_a_box_too(root, mark):
    """As setproctitle does, in a session of its own, whose parents are gone."""
    code = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.write(1, b'ready\\n')\n"
        f"        os.execve('/bin/sleep', ['sleep', '600'], {{{MARK!r}: {mark!r}}})\n"
        "    os._exit(0)\n" + FOREVER
    )
    with without_cgroups():
        engine = started(root, marked(mark, code))
    wait_until(
        lambda: any(
            process.command == "sleep 600"
            for attempt in engine.list_attempts()
            for process in attempt.living
        ),
        "it is known",
    )
    os.kill(supervisor(root), signal.SIGKILL)
    until(engine, Phase.LOST)
    assert_no_survivor(mark)


#: Nothing tells whose it is but who its parents were.
STRANGER = (
    "import os, resource, sys, time\n"
    "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
    "        resource.setrlimit(resource.RLIMIT_RSS, (1 << 40, 1 << 40))\n"
    "        os.write(1, b'ready\\n')\n        os.closerange(0, 64)\n"
    "        os.execve('/bin/sleep', ['sleep', '600'], {{{name!r}: {mark!r}}})\n"
    "    os._exit(0)\n" + FOREVER
)


def test_what_bears_no_mark_is_ended_by_a_second_subreaper_where_there_are_no_boxes(root, mark):
    with without_cgroups():
        engine = started(root, marked(mark, STRANGER.format(name=MARK, mark=mark)))
    pid = supervisor(root)
    assert tree.parent_of(pid) == record(root, "Began")["places"]["reaper"][0]
    wait_until(lambda: "command='sleep 600'" in str(engine.list_attempts()), "it is known")
    os.kill(pid, signal.SIGKILL)
    until(engine, Phase.LOST)
    assert_no_survivor(mark)


def test_a_second_subreaper_that_is_suspended_is_done_without(root, mark):
    with without_cgroups():
        engine = started(root, marked(mark, STRANGER.format(name=MARK, mark=mark)))
    pid = supervisor(root)
    os.kill(tree.parent_of(pid), signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    other = engine_at(root)
    until(other, Phase.LOST)
    assert_no_survivor(mark)
    until(engine, Phase.LOST)


def test_it_is_not_lost_before_the_last_process_of_it_is_gone(root, mark, monkeypatch):
    """A process that waits for a dead disk cannot be killed; here, one that cannot be seen to."""
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, FOREVER), ())
    until(engine, Phase.READY)
    with monkeypatch.context() as undead:
        undead.setattr(sweeping, "end_leftovers", lambda *_: [1])
        os.kill(supervisor(root), signal.SIGKILL)
        until(engine, Phase.UNKNOWN)
        assert {observe(engine).phase for _ in range(20)} == {Phase.UNKNOWN}
    until(engine, Phase.LOST)


def test_the_verdict_counts_though_the_supervisor_is_killed_while_it_stops_the_others(
    root, mark, tmp_path
):
    deaf = tmp_path / "deaf"
    worker = "import signal\nsignal.signal(15, signal.SIG_IGN)\n" + touching(deaf) + FOREVER
    engine = engine_at(root, grace_s=600.0)
    engine.launch(KEY, marked(mark, awaiting(deaf), worker), ())
    pid = supervisor(root)
    wait_until(lambda: record(root, "Decided"), "the primary has ended")
    os.kill(pid, signal.SIGKILL)
    observation = ended(engine)
    assert observation.outcome.exit_code == 0
    assert observation.outcome.message.startswith("master-replica-0 exited with code 0")


def test_a_supervisor_that_never_began_is_given_up_and_cannot_begin_later(
    root, mark, tmp_path, monkeypatch
):
    """A server was killed between the plan and the process."""
    ran, begin = tmp_path / "ran", AttemptStarter(devices=(), hang=HangRule())
    attempt = AttemptFolder(folder(root))
    with monkeypatch.context() as killed:
        killed.setattr(start, "spawn", lambda *_: 0)
        begin.begin(KEY, attempt, Preparation(plan=marked(mark, touching(ran))))
    engine = engine_at(root)
    assert observe(engine).phase is Phase.STARTING
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 400 * 86_400)
    phases = [observe(engine).phase for _ in range(2)]
    assert phases == [Phase.STARTING] * 2, "a clock that is set forward ends nothing"
    monkeypatch.setattr(proof, "BEGIN_S_MAX", 0.0)
    assert until(engine, Phase.LOST).fault == "its supervisor never began"
    assert subprocess.run(supervisor_argv(attempt.path), check=False).returncode == 0
    assert not ran.exists()
    assert observe(engine).phase is Phase.LOST


def test_a_server_that_was_killed_before_the_process_launches_again(root, mark, monkeypatch):
    with monkeypatch.context() as killed:
        killed.setattr(start, "spawn", lambda *_: 0)
        begin = AttemptStarter(devices=(), hang=HangRule())
        begin.begin(
            KEY, AttemptFolder(folder(root)), Preparation(plan=marked(mark, "print('late')"))
        )
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "print('now')"), ())
    assert ended(engine).outcome.exit_code == 0
    assert texts(root) == ["now"]


def test_a_supervisor_that_cannot_even_begin_is_lost_with_its_last_words(root, mark, monkeypatch):
    monkeypatch.setattr(start, "_CODE", "import trainshed.no_such_module")
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, ""), ())
    assert "No module named" in until(engine, Phase.LOST).fault


def test_a_burst_of_lines_over_several_segments_arrives_whole_and_in_order(root, mark):
    code = (
        "import os\n"
        "data = b''.join(b'%07d %s\\n' % (i, b'x' * 1000) for i in range(10_000))\n"
        "while data: data = data[os.write(1, data):]"
    )
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, code), ())
    assert ended(engine).outcome.exit_code == 0
    assert [int(text[:7]) for text in texts(root)] == list(range(10_000))
    assert len(segments(root)) == 3


def test_odd_bytes_and_very_long_lines_are_kept_in_pieces_that_can_be_read(root, mark):
    code = (
        "import os, sys\n"
        "os.write(1, b'a\\x00b\\xff\\n' + b'1%\\r2%\\r3%\\n' + 'é'.encode() * 100_000)"
    )
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, code), ())
    ended(engine)
    first, one, two, three, *pieces = texts(root)
    assert (first, one, two, three) == ("a\0b\ufffd", "1%", "2%", "3%")
    assert "".join(pieces) == "é" * 100_000
    assert max(map(len, pieces)) <= 1 << 15


def test_one_whose_beginning_was_lost_is_lost_at_once_and_nothing_of_it_lives(root, mark, tmp_path):
    """A record that never reached the disk, and a server that has not read it."""
    started = tmp_path / "started"
    code = "import os\nif os.fork() == 0: os.setsid()\n" + touching(started) + FOREVER
    engine_at(root).launch(KEY, marked(mark, code), ())
    wait_until(started.exists, "all processes run")
    os.kill(supervisor(root), signal.SIGKILL)
    wait_until(lambda: not AttemptFolder(folder(root)).is_held(), "it is gone")
    (folder(root) / "records.jsonl").unlink()
    engine = engine_at(root)
    assert until(engine, Phase.STARTING, Phase.LOST, Phase.ENDED).phase is Phase.LOST
    assert_no_survivor(mark)
    assert subprocess.run(supervisor_argv(str(folder(root))), check=False).returncode == 0
    assert record(root, "Began") is None


def test_a_node_says_by_what_means_leftovers_are_ended(root, monkeypatch):
    assert [node.leftovers for node in engine_at(root).fleet()] == [
        kill.find_box_strategy() or SUBREAPER
    ]
    monkeypatch.setattr(cgroup, "own_directory", lambda *_: None)
    bare, boxed = engine_at(root), engine_at(root, isolation=Isolation(SANDBOX))
    assert [node.leftovers for node in (*bare.fleet(), *boxed.fleet())] == [
        SUBREAPER,
        PID_NAMESPACE,
    ]
    assert "Delegate=yes" in bare.traits.leftovers
