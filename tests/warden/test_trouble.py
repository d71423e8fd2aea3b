"""Strangers, packages, a log that cannot be written, and a wire that says nonsense."""

import dataclasses
import hmac
import os
import resource
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from engines.wheels import make_wheel
from trainshed.engines.processes.secret import is_same, new_secret
from trainshed.engines.supervise.leftovers import list_marked
from trainshed.engines.supervise.loop import Loop
from trainshed.engines.warden import dialing, proof
from trainshed.engines.warden.listening import WardenListener
from trainshed.engines.warden.ports import PortReservation
from trainshed.engines.warden.protocol import Channel
from trainshed.model.launch_plan import Environment
from trainshed.model.roles import Role
from warden.attempts import DEADLINE_S, KEY, eventually, plan_of, replica, wardens, workers

OLD = str(Path.home() / ".pyenv/versions/3.9.18/bin/python")
SECRET = new_secret()
PIPE_BYTES = 1 << 20


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def until(loop, is_so):
    """Turn until something is so; a timer keeps every turn short."""
    late = loop.now() + DEADLINE_S

    def again():
        loop.after(0.02, again)

    again()
    while not is_so():
        assert loop.now() < late
        loop.turn()


@pytest.fixture
def listener(loop):
    proven = []
    listener = WardenListener(loop, SECRET, proven.append)
    listener.proven = proven
    listener.port = int(listener.list_addresses("").split(";")[1])
    yield listener
    listener.close()
    for end in proven:
        end.close()


def call(listener):
    return socket.create_connection(("127.0.0.1", listener.port), timeout=DEADLINE_S)


def read(loop, end, length):
    """What the other end says next, up to so much; nothing where it has hung up."""
    end.setblocking(False)
    came = []

    def is_there():
        try:
            came.append(end.recv(length - len(b"".join(came))))
        except BlockingIOError:
            return False
        except ConnectionError:
            came.append(b"")
        return not came[-1] or len(b"".join(came)) == length

    until(loop, is_there)
    return b"".join(came)


def prove(loop, end):
    """What a warden says; the launcher's proof is looked at."""
    theirs, ours = read(loop, end, proof.NONCE), proof.new_nonce()
    message = ours + proof.prove_warden(SECRET, theirs, ours)
    end.sendall(message)
    assert read(loop, end, proof.PROOF) == proof.prove_launcher(SECRET, theirs, ours)
    return message


def test_strangers_hold_up_nobody_and_learn_nothing(loop, listener):
    silent = [call(listener) for _ in range(20)]
    liar = call(listener)
    liar.sendall(b"GET / HTTP/1.1\r\n" + b"x" * 200)
    friend = call(listener)
    prove(loop, friend)
    until(loop, lambda: listener.proven)
    liar.setblocking(False)
    heard = []

    def is_hung_up():
        try:
            heard.append(liar.recv(100))
        except BlockingIOError:
            return False
        except ConnectionError:
            heard.append(b"")
        return not heard[-1]

    until(loop, is_hung_up)
    assert len(b"".join(heard)) == proof.NONCE
    assert len(listener.proven) == 1
    for client in (*silent, liar, friend):
        client.close()


def test_of_too_many_strangers_the_first_are_hung_up_on(loop, listener, monkeypatch):
    monkeypatch.setattr("trainshed.engines.warden.listening._CALLERS_MAX", 3)
    called = [call(listener) for _ in range(6)]
    until(loop, lambda: len(listener._callers) == 3)
    prove(loop, called[-1])
    until(loop, lambda: listener.proven)
    for client in called:
        client.close()


def test_what_one_end_has_said_proves_nothing_again(loop, listener):
    friend, echo = call(listener), call(listener)
    message = prove(loop, friend)
    echo.sendall(message)  # as it was heard, to another nonce
    assert read(loop, echo, proof.NONCE)
    assert read(loop, echo, 1) == b""
    mirror = call(listener)
    nonce = read(loop, mirror, proof.NONCE)
    mirror.sendall(nonce + proof.prove_launcher(SECRET, nonce, nonce))
    assert read(loop, mirror, 1) == b""
    assert len(listener.proven) == 1
    for client in (friend, echo, mirror):
        client.close()


def test_a_warden_tells_a_stranger_nothing_that_is_of_use():
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        place = ("127.0.0.1", stranger.getsockname()[1])
        received = []

        def pretend():
            end, _ = stranger.accept()
            with end:
                end.sendall(bytes(proof.NONCE))
                received.append(end.recv(1000))
                end.sendall(received[0][-proof.PROOF :])

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(OSError, match="another program"):
            dialing._connect(place, SECRET)
        thread.join(DEADLINE_S)
    assert SECRET.encode() not in received[0]
    assert bytes.fromhex(SECRET) not in received[0]


def test_a_proof_is_the_hmac_of_the_standard():
    key, message = SECRET.encode(), os.urandom(100)
    assert proof.compute_hmac(key, message) == hmac.digest(key, message, "sha256")
    assert proof.compute_hmac(b"short", b"") == hmac.digest(b"short", b"", "sha256")
    with pytest.raises(ValueError, match="at most 64 bytes"):
        proof.compute_hmac(b"x" * 65, b"")


def test_proofs_are_compared_whole():
    assert is_same(b"abc", b"abc")
    assert not is_same(b"abc", b"abd")
    assert not is_same(b"ab", b"abc")
    assert new_secret() != SECRET


@pytest.fixture
def pair(loop):
    ours, theirs = socket.socketpair()
    heard, ended = [], []
    channel = Channel(loop, ours, 1000, lambda *args: heard.append(args), ended.append)
    yield channel, theirs, heard, ended
    channel.close()
    theirs.close()


def frame(kind, data):
    return struct.pack("!IB", len(data), kind) + data


def test_frames_come_whole_however_they_are_cut(loop, pair):
    _, theirs, heard, ended = pair
    data = frame(0, b"{}") + frame(1, b"x" * 900) + frame(2, b"")
    for at in range(0, len(data), 7):
        theirs.sendall(data[at : at + 7])
    until(loop, lambda: len(heard) == 3)
    assert heard == [(0, b"{}"), (1, b"x" * 900), (2, b"")]
    theirs.close()
    until(loop, lambda: ended)
    assert ended == ["closed the connection"]


def test_a_frame_that_is_too_long_ends_the_connection(loop, pair):
    _, theirs, heard, ended = pair
    theirs.sendall(struct.pack("!IB", 1001, 0))
    until(loop, lambda: ended)
    assert ended == [
        "sent a malformed message: ValueError('a frame must have at most 1000 bytes, got 1001')"
    ]
    assert not heard


def test_what_is_not_taken_waits_and_nothing_is_lost(loop, pair):
    channel, theirs, _, _ = pair
    drained = []
    channel.drained = lambda: drained.append(True)
    count = 200
    for at in range(count):
        channel.send(1, bytes([at]) * 10_000)
    assert channel.unsent_bytes > 0
    drained.clear()
    theirs.setblocking(False)
    came = bytearray()

    def has_come():
        with suppress(BlockingIOError):
            came.extend(theirs.recv(1 << 16))
        return len(came) == count * 10_005

    until(loop, has_come)
    assert channel.unsent_bytes == 0
    assert drained
    assert bytes(came) == b"".join(frame(1, bytes([at]) * 10_000) for at in range(count))


def test_ports_of_two_wardens_of_a_node_are_never_the_same():
    first, second = PortReservation(), PortReservation()
    ranges = [range(at, at + 3) for at in (first.take(3), second.take(3))]
    assert not set(ranges[0]) & set(ranges[1])
    with socket.socket() as probe, pytest.raises(OSError, match="in use"):
        probe.bind(("", ranges[0][1]))
    first.release()
    with socket.socket() as probe:
        probe.bind(("", ranges[0][1]))
    second.release()
    assert first.take(0) == 0


@pytest.mark.parametrize("python", [sys.executable, OLD], ids=["ours", "3.9"])
def test_packages_are_installed_once_a_node_for_all_of_its_wardens(launchers, tmp_path, python):
    if not Path(python).exists():
        pytest.skip("no Python 3.9 is here: install it with pyenv")
    wheel = make_wheel(tmp_path, "greeting", "1.0")
    cache = tmp_path / "cache"
    environment = Environment(python=python, packages=(str(wheel),))
    code = "import greeting, os; print(os.path.dirname(os.path.dirname(greeting.__file__)))"
    replicas = [
        dataclasses.replace(worker, argv=("python", *worker.argv[1:]))
        for worker in workers(code, 3)
    ]
    attempt = launchers.begin(
        plan_of(replicas, environment=environment),
        python=python,
        cache=str(cache),
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},  # for uv
    )
    assert attempt.ended().outcome.exit_code == 0, attempt.words()
    places = set(attempt.texts()) - set(attempt.texts("service"))
    assert len(places) == 1
    assert places.pop().startswith(str(cache))


def test_packages_that_cannot_be_had_fail_the_job_and_start_nothing(launchers, tmp_path):
    environment = Environment(python=sys.executable, packages=(str(tmp_path / "none.whl"),))
    plan = plan_of(workers("print('runs')", 2), environment=environment)
    ended = launchers.begin(plan, cache=str(tmp_path / "cache")).ended()
    assert "none.whl" in ended.fault
    assert not ended.lost
    assert not list_marked(str(KEY))


@pytest.mark.full  # the code of engines/test_supervisor_disk.py
def test_programs_wait_while_the_log_cannot_be_written_and_no_line_is_lost(launchers):
    go, done = launchers.root / "go", launchers.root / "done"
    code = (
        "import os, time\n"
        f"print('ready', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "for i in range(200_000): print(f'{i:07d}', 'x' * 50)\n"
        f"open({str(done)!r}, 'w')\n"
    )
    # of several replicas each has a warden
    attempt = launchers.begin(plan_of((replica(code), replica("pass", Role.WORKER))))
    attempt.until(lambda: "ready" in attempt.texts("primary-0"), "it runs")
    pid = int(attempt.records().began.pid)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    go.touch()
    eventually(lambda: any(map(has_full_pipe, wardens(attempt))), "its program waits")
    assert not done.exists()
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    assert attempt.ended().outcome.exit_code == 0
    assert [int(text[:7]) for text in attempt.texts("primary-0")[1:]] == list(range(200_000))
    (note,) = attempt.texts("service")
    assert note.startswith("The log could not be written for")


def has_full_pipe(warden):
    """Whether the program below it waits in a write."""
    for task in Path(f"/proc/{warden}/task/{warden}/children").read_text().split():
        return Path(f"/proc/{task}/wchan").read_text() in {"pipe_write", "anon_pipe_write"}
    return False


def test_a_warden_that_is_silent_for_a_moment_is_not_lost(launchers):
    code = "import time\nprint('runs', flush=True)\ntime.sleep(1.5)\nprint('over')"
    attempt = launchers.begin(plan_of((replica(code), replica(code, Role.WORKER))))
    attempt.until(lambda: attempt.texts().count("runs") == 2, "they run")
    warden, launcher = wardens(attempt)[0], int(attempt.records().began.pid)
    os.kill(warden, signal.SIGSTOP)
    os.kill(launcher, signal.SIGSTOP)
    os.kill(launcher, signal.SIGCONT)
    os.kill(warden, signal.SIGCONT)
    assert attempt.ended().outcome.exit_code == 0
    assert attempt.texts().count("over") == 2
