"""An attempt is ended as ordered: told first, then given its time, then killed, never milder."""

import json
import os
import signal
import stat
import time

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    marked,
    observe,
    order,
    record,
    started,
    supervisor,
    texts,
    until,
)
from engines.support import (
    FOREVER,
    assert_no_survivor,
    awaiting,
    is_stopped,
    marked_processes,
    touching,
    wait_until,
)
from trainshed.engines.local.attempts import attempt as attempts
from trainshed.engines.local.attempts import proof
from trainshed.engines.local.attempts.fence import identity_of
from trainshed.engines.processes import identity
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.model.attempt import Phase
from trainshed.model.stopping import StopReason

#: A program that shows the notice that it is given when it is told to end, and goes on.
READS_NOTICE = (
    "import json, os, signal\n"
    "def told(*_): print(open(os.environ['TRAINSHED_NOTICE_FILE']).read(), flush=True)\n"
    "signal.signal(15, told)\n"
    "print('ready', flush=True)\n"
)
DEAF = (
    "import signal, time\nsignal.signal(15, signal.SIG_IGN)\n"
    "print('ready', flush=True)\ntime.sleep(600)"
)


def test_replicas_read_why_and_until_when_before_they_are_written(root, mark, tmp_path):
    go = tmp_path / "go"
    engine = started(root, marked(mark, READS_NOTICE + awaiting(go)))
    before = time.time()
    engine.stop(KEY, order(60.0, StopReason.MAINTENANCE, "node a goes down"))
    wait_until(lambda: len(texts(root)) > 1, "the replica was told")
    notice = json.loads(texts(root)[1])
    assert (notice["reason"], notice["message"]) == ("maintenance", "node a goes down")
    assert before + 60.0 <= notice["until"] <= time.time() + 60.0
    go.touch()
    outcome = ended(engine).outcome
    assert outcome.interrupted
    assert outcome.message == "node a goes down"


def test_a_shorter_grace_shortens_what_is_left_of_a_longer_one(root, mark):
    engine = started(root, marked(mark, DEAF, DEAF))
    wait_until(lambda: texts(root, "worker-replica-0"), "the other one is deaf too")
    engine.stop(KEY, order(3600.0))
    wait_until(lambda: record(root, "Decided"), "the order was heard")
    engine.stop(KEY, order(7200.0))
    engine.stop(KEY, order(0.2))
    outcome = ended(engine).outcome
    assert [(e.signal, e.killed, e.stopped_by_us) for e in outcome.replicas] == [
        (signal.SIGKILL, True, True)
    ] * 2


def test_what_had_time_to_end_was_not_killed(root, mark):
    engine = started(root, marked(mark, "print('ready', flush=True)\n" + FOREVER))
    engine.stop(KEY, order(60.0))
    (replica_exit,) = ended(engine).outcome.replicas
    assert (replica_exit.signal, replica_exit.killed, replica_exit.stopped_by_us) == (
        signal.SIGTERM,
        False,
        True,
    )
    assert 0.0 <= replica_exit.notice_s <= replica_exit.seconds


def test_a_job_that_had_ended_by_itself_was_not_interrupted(root, mark, tmp_path):
    """The order comes while the others are being stopped: it only hurries them."""
    ready = tmp_path / "ready"
    deaf = DEAF.replace("print(", touching(ready) + "print(")
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, awaiting(ready) + "exit(3)", deaf), ())
    wait_until(lambda: record(root, "Decided"), "the primary has ended")
    engine.stop(KEY, order(0.0))
    outcome = ended(engine).outcome
    assert (outcome.exit_code, outcome.interrupted) == (3, False)
    assert outcome.message.startswith("master-replica-0 exited with code 3")


def test_a_machine_that_goes_down_interrupts_its_jobs(root, mark, tmp_path):
    """An init system sends SIGTERM to everybody, and nobody has given an order."""
    go = tmp_path / "go"
    engine = started(root, marked(mark, READS_NOTICE + awaiting(go)))
    supervisor(root)
    attempt_records = AttemptRecords()
    attempt_records.read(engine._attempts.get(KEY).folder.records)
    identity.send_signal(identity_of(attempt_records.began), signal.SIGTERM)
    wait_until(lambda: len(texts(root)) > 1, "the replica was told")
    assert json.loads(texts(root)[1])["reason"] == "maintenance"
    go.touch()
    outcome = ended(engine).outcome
    assert outcome.interrupted
    assert outcome.message == "stopped by SIGTERM"
    assert texts(root, "service") == ["SIGTERM: stopping all replicas"]


def test_an_order_that_nobody_told_of_is_found(root, mark):
    """The server was killed right after it had written the order."""
    engine = started(root, marked(mark, "print('ready', flush=True)\n" + FOREVER))
    engine._attempts.get(KEY).folder.give_order(Order(grace_s=60.0))
    assert ended(engine).outcome.interrupted


def test_a_suspended_program_hears_that_it_shall_end(root, mark, tmp_path):
    notice = tmp_path / "told"
    code = (
        "import os, signal, sys, time\n"
        f"def end(*_):\n    {touching(notice)}    sys.exit(0)\n"
        "signal.signal(15, end)\nprint('ready', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\nwhile True: time.sleep(0.01)"
    )
    engine = started(root, marked(mark, code))
    (replica,) = marked_processes(mark)
    wait_until(lambda: is_stopped(replica), "it is suspended")
    engine.stop(KEY, order(3600.0))
    ended(engine)
    assert notice.exists()


def test_replicas_are_written_who_they_are(root, mark):
    names = ("TRAINSHED_ATTEMPT", "TRAINSHED_JOB", "TRAINSHED_TASK")
    code = f"import os; print(*(os.environ[n] for n in {names!r}))"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, code), ())
    assert until(engine, Phase.ENDED).outcome.exit_code == 0
    assert texts(root) == [f"1 {KEY} master-replica-0"]


#: Saves with the help of a child that would die of SIGTERM, as a data loader's workers do.
NEEDS_ITS_CHILD = """\
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "input(); print('helped', flush=True)"],
                         stdin=subprocess.PIPE)
def told(*_):
    child.communicate(b"now\\n")
    print("saved with the help of", child.returncode, flush=True)
    os._exit(0)
signal.signal(15, told)
print("ready", flush=True)
while True: time.sleep(0.01)
"""


def test_what_a_replica_needs_to_save_itself_is_not_asked_to_end_before_it(root, mark):
    engine = started(root, marked(mark, NEEDS_ITS_CHILD))
    engine.stop(KEY, order(60.0))
    ended(engine)
    assert texts(root) == ["ready", "helped", "saved with the help of 0"]


def test_a_notice_can_be_read_by_containers_whatever_the_umask_is(root, mark, tmp_path):
    go = tmp_path / "go"
    before = os.umask(0o077)
    try:
        engine = started(root, marked(mark, READS_NOTICE + awaiting(go)))
    finally:
        os.umask(before)
    engine.stop(KEY, order(60.0))
    wait_until(lambda: len(texts(root)) > 1, "the replica was told")
    notice = folder(root) / "progress" / "notice"
    assert stat.S_IMODE(notice.stat().st_mode) == 0o644
    go.touch()
    ended(engine)


@pytest.mark.parametrize("strange", ["FIFO", "device", "garbage"])
def test_whatever_a_program_puts_in_the_place_of_the_order_it_is_stopped(root, mark, strange):
    engine = started(root, marked(mark, "print('ready', flush=True)\n" + FOREVER))
    path = folder(root) / "stop"
    if strange == "FIFO":
        os.mkfifo(path)
    elif strange == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_text("[]")
    engine.stop(KEY, order(60.0))
    assert ended(engine).outcome.interrupted


def suspended(root, mark):
    """An engine whose attempt's supervisor stands still, and that supervisor."""
    engine = started(root, marked(mark, "print('ready', flush=True)\n" + FOREVER))
    pid = supervisor(root)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), "the supervisor is suspended")
    return engine, pid


def test_a_suspended_supervisor_is_told_of_and_wakes_when_it_is_to_end(root, mark):
    engine, pid = suspended(root, mark)
    assert [attempt.suspended for attempt in engine.list_attempts()] == [pid]
    engine.stop(KEY, order(60.0))
    assert ended(engine).outcome.interrupted


def test_a_supervisor_that_stays_suspended_is_killed_after_its_time_and_swept(
    root, mark, monkeypatch
):
    monkeypatch.setattr(attempts, "_CHECK_S", 0.0)
    engine, pid = suspended(root, mark)
    for grace_s in (None, 3600.0):
        if grace_s is not None:  # nobody wakes it
            engine._attempts.get(KEY).folder.give_order(Order(grace_s=grace_s))
        assert {observe(engine).phase for _ in range(5)} == {Phase.READY}
        assert is_stopped(pid)
    engine._attempts.get(KEY).folder.give_order(Order(grace_s=0.0))
    assert observe(engine).phase is Phase.READY
    monkeypatch.setattr(proof, "SUSPENDED_S_MAX", 0.0)
    until(engine, Phase.LOST)
    assert_no_survivor(mark)
