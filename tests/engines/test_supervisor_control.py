"""A supervisor answers on its socket, and nobody who asks can keep it from its work."""

import os
import signal
import socket
import stat

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    marked,
    order,
    supervisor,
    texts,
    until,
)
from engines.support import FOREVER, awaiting, wait_until
from trainshed.engines.local.attempts import ask as asking
from trainshed.engines.local.attempts.folder import AttemptFolder
from trainshed.engines.local.supervise.control import short_path
from trainshed.model.attempt import Phase

ANSWER_S = 60.0


def ask(root, question):
    return asking.ask(AttemptFolder(folder(root)), question, timeout_s=ANSWER_S)


def connected(root):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
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


def test_it_says_what_it_knows_of_itself_and_its_replicas(root, engine):
    found = ask(root, {"do": "status"})
    assert found["pid"] == supervisor(root)
    assert found["phase"] == "running"
    assert found["rss_bytes"] > 0
    assert found["rungs"]
    assert [each["task_name"] for each in found["replicas"]] == [
        "master-replica-0",
        "worker-replica-0",
    ]
    assert all(each["pid"] and each["silent_s"] >= 0 for each in found["replicas"])
    assert until(engine, Phase.READY)


def test_only_its_own_user_may_ask_however_deep_the_folder_lies(tmp_path, mark):
    deep = tmp_path / "/".join(["x" * 100] * 3)
    engine = engine_at(deep)
    engine.launch(KEY, marked(mark, FOREVER), ())
    until(engine, Phase.READY)
    path = folder(deep) / "control"
    assert len(str(path)) > 108
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ask(deep, {"do": "status"})["phase"] == "running"
    engine.stop(KEY, order(0.0))
    ended(engine)
    assert not path.exists()


def test_clients_that_connect_and_hang_block_nobody(root, engine):
    hanging = [connected(root) for _ in range(40)]
    try:
        for client in hanging[-10:]:
            client.sendall(b'{"do": "sta')
        assert ask(root, {"do": "status"})["phase"] == "running"
        assert seen_phase(engine) is Phase.READY
    finally:
        for client in hanging:
            client.close()


def test_one_who_asks_as_it_is_cut_off_harms_nobody(root, engine):
    """Both are seen at once: that somebody new connects, and what the oldest asks."""
    clients = [connected(root) for _ in range(16)]
    pid = supervisor(root)
    try:
        assert ask_of(clients[-1], b'{"do": "dance"}\n'), "all of them have been accepted"
        os.kill(pid, signal.SIGSTOP)
        clients.append(connected(root))
        clients[0].sendall(b'{"do": "dance"}\n')
        os.kill(pid, signal.SIGCONT)
        assert ask_of(clients[-1], b'{"do": "dance"}\n')
    finally:
        for client in clients:
            client.close()
    assert seen_phase(engine) is Phase.READY


def ask_of(client, question):
    client.settimeout(ANSWER_S)
    client.sendall(question)
    return client.recv(4096)


def seen_phase(engine):
    return engine.observe([KEY])[0].phase


def test_one_who_asks_and_never_reads_is_cut_off(root, engine):
    with connected(root) as client:
        client.settimeout(ANSWER_S)
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            client.sendall(b'{"do": "status"}\n' * 1_000_000)
    assert ask(root, {"do": "status"})["phase"] == "running"
    assert seen_phase(engine) is Phase.READY


@pytest.mark.parametrize(
    "data",
    [b"\xff\n", b"[]\n", b"{}\n", b'{"do": "dance"}\n', b"x" * 70_000, b"[" * 60_000 + b"\n"],
)
def test_what_makes_no_sense_is_answered_or_cut_off(root, engine, data):
    with connected(root) as client:
        client.settimeout(ANSWER_S)
        client.sendall(data)
        try:
            answer = client.recv(4096)
        except ConnectionResetError:
            answer = b""
        assert answer in {b'{"error": "unknown question"}\n', b""}
    assert seen_phase(engine) is Phase.READY


@pytest.mark.parametrize(
    "given", [7, {"grace_s": "soon"}, {"strange": 1}, {"grace_s": 10**400}, {"grace_s": []}]
)
def test_an_order_that_makes_no_sense_is_none(root, engine, given):
    assert ask(root, {"do": "stop", "order": given}) == {"ok": True}
    assert ask(root, {"do": "status"})["phase"] == "running"
    assert seen_phase(engine) is Phase.READY


def test_stacks_are_looked_at_where_a_program_can(root, mark, tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "py-spy"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho Thread $4 idle\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    go = tmp_path / "go"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "import os; print(os.getpid())\n" + awaiting(go)), ())
    wait_until(lambda: texts(root), "the replica runs")
    found = ask(root, {"do": "stacks", "task_name": "master-replica-0"})
    assert found["stacks"] == f"Thread {texts(root)[0]} idle"
    assert "error" in ask(root, {"do": "stacks", "task_name": "nobody"})
    go.touch()
    ended(engine)
