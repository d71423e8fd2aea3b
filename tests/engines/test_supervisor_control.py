"""A supervisor takes orders on its socket, and nobody who connects can keep it from its work."""

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    lines,
    marked,
    order,
    until,
)
from engines.support import FOREVER, wait_until
from trainshed.engines.local.attempts import attempt
from trainshed.engines.supervise.record.folder import AttemptFolder, short_path
from trainshed.model.attempt import Phase

ANSWER_S = 60.0
AT_ONCE = {"grace_s": 0.0}


def connected(root):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with short_path(AttemptFolder(folder(root)).control) as path:
        connection.connect(path)
    return connection


@pytest.fixture
def engine(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "print('x', flush=True)\n" + FOREVER, FOREVER), ())
    until(engine, Phase.READY)
    yield engine
    engine.stop(KEY, order(0.0))
    ended(engine)


def assert_obeys(root, engine):
    """It still runs, and hears an order that no disk has."""
    assert engine.observe([KEY])[0].phase is Phase.READY
    wait_until(
        lambda: attempt.send_order(AttemptFolder(folder(root)), AT_ONCE), "it hears somebody new"
    )
    assert ended(engine).outcome.interrupted
    assert not (folder(root) / "stop").exists()


def test_a_supervisor_keeps_no_descriptor_that_comes_with_a_message(root, engine):
    (pid,) = engine._supervisors()
    before = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    with connected(root) as stranger, Path(os.devnull).open("rb") as file:
        for _ in range(40):
            socket.send_fds(stranger, [b"{}"], [file.fileno()] * 3)
    for _ in range(40):
        listeners = engine.ask_listeners(KEY)
        assert listeners.sockets == ()  # it has the machine's network
        listeners.lifeline.close()
    # it keeps those of the last four servers, and may have opened files of its own
    wait_until(
        lambda: len(list(Path(f"/proc/{pid}/fd").iterdir())) < before + 10, "it has closed them"
    )
    assert_obeys(root, engine)


def test_only_its_own_user_may_ask_however_deep_the_folder_lies(tmp_path, mark):
    deep = tmp_path / "/".join(["x" * 100] * 3)
    engine = engine_at(deep)
    engine.launch(KEY, marked(mark, FOREVER), ())
    until(engine, Phase.READY)
    path = folder(deep) / "control"
    assert len(str(path)) > 108
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert_obeys(deep, engine)
    assert not path.exists()


#: Sends an order as a program of the job: by itself, as an orphan that has left its session, and
#: as one that is gone when it is read.
SENDS = """
import json, os, socket, time
folder = os.open({folder!r}, os.O_PATH)
message = json.dumps({{"do": "stop", "order": {{"grace_s": 0.0}}}}).encode()
def send():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(message, f"/proc/self/fd/{{folder}}/control")
while True:
    try:
        send()
        break
    except OSError:
        time.sleep(0.01)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        send()
        time.sleep(600)
    os._exit(0)
if os.fork() == 0:
    send()
    os._exit(0)
print("sent", flush=True)
"""


def test_a_job_gives_its_own_supervisor_no_orders(root, mark):
    engine = engine_at(root)
    code = SENDS.format(folder=str(folder(root)))
    engine.launch(KEY, marked(mark, code + FOREVER), ())
    wait_until(lambda: any("sent" in line.text for line in lines(root)), "it has sent")
    wait_until(
        lambda: any("refused a message" in line.text for line in lines(root)), "the log tells of it"
    )
    (warning,) = [line for line in lines(root) if "refused a message" in line.text]
    assert warning.severity == "WARNING"
    assert_obeys(root, engine)


def test_clients_that_connect_and_hang_block_nobody(root, engine):
    hanging = [connected(root) for _ in range(40)]
    try:
        for client in hanging[-10:]:
            client.sendall(b'{"do": "sta')
        assert_obeys(root, engine)
    finally:
        for client in hanging:
            client.close()


def test_one_who_never_ceases_to_send_does_not_keep_others_out(root, engine):
    with connected(root) as client:
        client.settimeout(ANSWER_S)
        for _ in range(20_000):
            client.sendall(b'{"do": "dance"}\n')
        assert_obeys(root, engine)


@pytest.mark.parametrize(
    "data",
    [b"\xff\n", b"[]\n", b"{}\n", b'{"do": "dance"}\n', b"x" * 70_000, b"[" * 60_000 + b"\n"],
)
def test_what_makes_no_sense_is_passed_over_or_cut_off(root, engine, data):
    with connected(root) as client:
        client.settimeout(ANSWER_S)
        client.sendall(data)
        assert_obeys(root, engine)


@pytest.mark.parametrize(
    "document", [7, {"grace_s": "soon"}, {"strange": 1}, {"grace_s": 10**400}, {"grace_s": []}]
)
def test_an_order_that_makes_no_sense_is_none(root, engine, document):
    assert attempt.send_order(AttemptFolder(folder(root)), document)
    assert_obeys(root, engine)


def test_lines_that_a_program_wrote_elsewhere_come_into_its_log(root, engine):
    emoji = "\N{GRINNING FACE}" * 40_000
    half = "half a character: \ud83d"
    entries = [("hello", "WARNING"), (half, "INFO"), (emoji, "INFO")]
    wait_until(lambda: engine.add_lines(KEY, "cloud-logging", entries), "it hears somebody")

    def added():
        return [line for line in lines(root) if line.task_name == "cloud-logging"]

    expected = f"hello{half[:-1]}?{emoji}"
    wait_until(lambda: "".join(line.text for line in added()) == expected, "it has them")
    assert [line.severity for line in added()][:2] == ["WARNING", "INFO"]


@pytest.mark.parametrize("entries", [7, [7], [["x"]], None])
def test_lines_that_make_no_sense_are_none(root, engine, entries):
    key = AttemptFolder(folder(root)).read_key()
    message = json.dumps({"do": "log", "task": "x", "lines": entries, "key": key}).encode()
    with connected(root) as client:
        client.sendall(message)
    assert_obeys(root, engine)


def test_an_order_without_the_secret_of_the_attempt_is_refused(root, engine):
    """Also one of a process that is of no job: a program of the same user that knows the path."""
    keys = ({}, {"key": ""}, {"key": 7}, {"key": "0" * 64}, {"key": "\ud800"}, {"key": [[]]})
    with connected(root) as client:
        for key in keys:
            client.sendall(json.dumps({"do": "stop", "order": AT_ONCE, **key}).encode())
        wait_until(
            lambda: any("refused a message" in line.text for line in lines(root)), "it says so"
        )
    assert_obeys(root, engine)
    assert sum("refused a message" in line.text for line in lines(root)) == 1


def test_a_supervisor_without_a_secret_obeys_the_order_on_the_disk(root, mark, monkeypatch):
    """As where an older server began the attempt: no message is believed, and a stop ends it."""
    monkeypatch.setattr(AttemptFolder, "make_key", lambda _: None)
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, FOREVER), ())
    until(engine, Phase.READY)
    control = AttemptFolder(folder(root))
    wait_until(lambda: attempt.send_order(control, AT_ONCE), "it has a socket")
    wait_until(lambda: any("refused a message" in line.text for line in lines(root)), "it says so")
    engine.stop(KEY, order(0.0))
    assert ended(engine).outcome.interrupted


def test_lines_for_an_attempt_that_has_ended_are_not_taken(engine):
    engine.stop(KEY, order(0.0))
    ended(engine)
    assert not engine.add_lines(KEY, "cloud-logging", [("late", "INFO")])
