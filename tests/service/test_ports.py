"""The listening sockets of a server outlive it, and only the next server gets them."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from trainshed.engines.processes import identity
from trainshed.engines.supervise.record.folder import AttemptFolder, short_path
from trainshed.service.ports import held, holder_client, listening
from trainshed.service.ports.held import HeldPorts
from trainshed.service.ports.holder_client import NOTE, SOCKET

WAIT_S_MAX = 60
#: A server that greets each client, and does as its input says.
SERVER = """
import os, sys, threading
from pathlib import Path
from trainshed.service.ports.held import HeldPorts
ports = HeldPorts(Path(sys.argv[1]), os.environ)
listener = ports.listen("api", "127.0.0.1", int(sys.argv[2]), 8)
ports.say_ready()
def greet():
    while True:
        client, _ = listener.accept()
        client.sendall(b"welcome")
        client.close()
threading.Thread(target=greet, daemon=True).start()
print(listener.getsockname()[1], flush=True)
for line in sys.stdin:
    if line == "end\\n":
        print(ports.close(), flush=True)
        break
"""
#: Passes a descriptor as systemd does: as number 3, to this pid.
AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Server:
    """A process with one held port."""

    def __init__(self, folder, port=0, *, environ=None, passed=None):
        argv = [sys.executable, "-c", SERVER, folder, str(port)]
        if passed is not None:
            argv = [sys.executable, "-c", AS_SYSTEMD, str(passed), *argv]
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environ or {})},
            pass_fds=() if passed is None else (passed,),
        )
        self.port = int(self.process.stdout.readline())

    def do(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(tmp_path):
    """Starts servers of one data directory; its holder ends with the test."""
    servers = []

    def begin(port=0, **options):
        servers.append(Server(tmp_path, port, **options))
        return servers[-1]

    yield begin
    for server in servers:
        server.kill()
    with suppress(OSError, ValueError):
        os.kill(holder_of(tmp_path), signal.SIGKILL)


def holder_of(folder):
    return json.loads((folder / NOTE).read_text())["holder"][0]


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT_S_MAX)


def wait_until(is_so):
    for _ in range(WAIT_S_MAX * 100):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError


def is_free(port, address="127.0.0.1"):
    """Whether a program that is in a hurry may have it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.create_server((address, port), family=family):
        return True
    return False


def test_a_connection_made_while_the_server_is_away_is_answered_by_the_next(start):
    first = start()
    first.kill()
    assert not is_free(first.port)
    with connect(first.port) as client:
        second = start()
        assert (second.port, client.recv(64)) == (first.port, b"welcome")


def test_a_port_that_another_server_uses_is_not_shared(start):
    first, second = start(), start()
    assert first.port != second.port
    first.kill()
    third = start(first.port)
    with connect(third.port) as client:
        assert client.recv(64) == b"welcome"


def test_ports_are_free_after_an_orderly_end_without_jobs(start):
    server = start()
    assert server.do("end") == "False"
    server.process.wait(WAIT_S_MAX)
    assert is_free(server.port)


def test_ports_stay_held_after_an_orderly_end_while_a_job_runs_on(start, tmp_path):
    folder = AttemptFolder(tmp_path / "jobs/1/1")
    folder.make()
    lock = folder.hold()
    server = start()
    assert server.do("end") == "True"
    server.process.wait(WAIT_S_MAX)
    assert not is_free(server.port)
    os.close(lock)
    second = start(server.port)
    assert second.do("end") == "False"


def test_a_program_that_does_not_know_the_secret_gets_no_socket(start, tmp_path):
    server = start()
    server.kill()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.settimeout(WAIT_S_MAX)
        with short_path(str(tmp_path / SOCKET)) as path:
            stranger.connect(path)
        take = {"do": "take", "role": "api", "host": "127.0.0.1", "port": 0, "secret": "guessed"}
        stranger.send(json.dumps(take).encode())
        assert stranger.recv(64) == b""
    assert start().port == server.port


#: A process of a job that fills the holder's queue, and then says what became of its connections.
FILLS_THE_QUEUE = """
import os, socket, sys
from trainshed.engines.processes import mark
mark.mark_self(mark.limit_of("1/1"))
os.chdir(sys.argv[1])
clients = []
while True:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.setblocking(False)
    try:
        client.connect(sys.argv[2])
    except BlockingIOError:
        break
    clients.append(client)
print(len(clients), flush=True)
for client in clients:
    client.setblocking(True)
    assert client.recv(64) == b""
print("all closed", flush=True)
"""


def test_a_job_that_fills_the_holders_queue_keeps_no_server_out(start, tmp_path):
    """A server was refused a place in the queue, started another holder, and had no port."""
    first = start()
    first.kill()
    holder = holder_of(tmp_path)
    os.kill(holder, signal.SIGSTOP)
    try:
        argv = [sys.executable, "-c", FILLS_THE_QUEUE, tmp_path, SOCKET]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as job:
            assert int(job.stdout.readline()) > 1
            threading.Timer(0.5, os.kill, (holder, signal.SIGCONT)).start()
            second = start(first.port)
            assert (second.port, holder_of(tmp_path)) == (first.port, holder)
            assert job.stdout.readline() == "all closed\n"
    finally:
        os.kill(holder, signal.SIGCONT)


def test_no_other_program_gets_the_port_that_localhost_means_by_ipv6(start):
    """A client that names localhost tries ::1 first, and sends its token to what answers there."""
    first = start()
    for address in ("::1", "::"):
        assert not is_free(first.port, address)
    first.kill()
    assert not is_free(first.port, "::1")
    second = start(first.port)
    assert not is_free(first.port, "::1")
    with socket.create_connection(("localhost", first.port), timeout=WAIT_S_MAX) as client:
        assert client.recv(64) == b"welcome"
    assert second.do("end") == "False"
    second.process.wait(WAIT_S_MAX)
    assert is_free(first.port, "::1")


@pytest.mark.parametrize(("host", "twin"), [("::1", "127.0.0.1"), ("0.0.0.0", "::")])  # noqa: S104
def test_the_port_of_the_other_family_is_reserved(tmp_path, host, twin):
    ports = HeldPorts(tmp_path, {})
    try:
        with ports.listen("api", host, 0, 8) as listener:
            assert not is_free(listener.getsockname()[1], twin)
    finally:
        ports.close()


def test_a_port_that_the_server_picks_is_free_in_both_families(tmp_path, monkeypatch):
    """The kernel picks by one address alone, and may offer the same port at each try."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        taken_port = sock.getsockname()[1]

        def listen_at_the_taken_port_first(role, host, port, backlog):
            with suppress(OSError):
                return listening.listen(role, host, port or taken_port, backlog)
            return listening.listen(role, host, port, backlog)

        monkeypatch.setattr(held, "listen", listen_at_the_taken_port_first)
        ports = HeldPorts(tmp_path, {})
        try:
            with ports.listen("api", "::1", 0, 8) as listener:
                port = listener.getsockname()[1]
                assert port != taken_port
                assert ports.numbers() == (port,)
                assert not is_free(port, "127.0.0.1")
                assert is_free(taken_port, "::1"), "the first try was not given back"
        finally:
            ports.close()


def test_a_server_starts_where_no_port_is_free_in_both_families(tmp_path, monkeypatch, caplog):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        taken_port = sock.getsockname()[1]

        def listen_at_the_taken_port(role, host, port, backlog):
            return listening.listen(role, host, port or taken_port, backlog)

        monkeypatch.setattr(held, "listen", listen_at_the_taken_port)
        ports = HeldPorts(tmp_path, {})
        try:
            ports.listen("api", "::1", 0, 8).close()
            assert ports.numbers() == (taken_port,)
            assert f"cannot reserve port {taken_port} of 127.0.0.1" in caplog.text
        finally:
            ports.close()


def test_a_port_that_the_caller_names_is_used_although_the_other_family_has_it(tmp_path, caplog):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        ports = HeldPorts(tmp_path, {})
        try:
            ports.listen("api", "::1", port, 8).close()
            assert ports.numbers() == (port,)
            assert f"cannot reserve port {port} of 127.0.0.1" in caplog.text
        finally:
            ports.close()


def test_a_server_believes_only_the_process_that_it_noted(tmp_path):
    path = tmp_path / SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        with short_path(str(path)) as short:
            listener.bind(short)
        listener.listen()
        noted = {"holder": identity.read_identity(os.getppid()), "secret": "x"}
        (tmp_path / NOTE).write_text(json.dumps(noted))
        ports = HeldPorts(tmp_path, {})
        try:
            assert holder_of(tmp_path) not in {os.getpid(), os.getppid()}
            client, _ = listener.accept()
            with client:
                assert client.recv(64) == b"", "the secret was told to a stranger"
        finally:
            ports.close()


def sockets_of(pid):
    links = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            links.add(str(path.readlink()))
    return {link for link in links if link.startswith("socket:")}


def test_a_holder_that_was_killed_is_started_again_at_once(start, tmp_path):
    first = start()
    killed = holder_of(tmp_path)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: holder_of(tmp_path) != killed)
    wait_until(lambda: not Path(f"/proc/{killed}").exists())  # and collected
    wait_until(lambda: sockets_of(holder_of(tmp_path)) & sockets_of(first.process.pid))
    first.kill()
    assert start().port == first.port


def test_a_holder_that_does_not_answer_is_replaced(start, tmp_path, monkeypatch):
    monkeypatch.setattr(holder_client, "_ANSWER_S_MAX", 0.2)
    start().kill()
    stopped = holder_of(tmp_path)
    stop(stopped)
    try:
        ports = HeldPorts(tmp_path, {})
        assert holder_of(tmp_path) != stopped
        ports.close()
    finally:
        os.kill(stopped, signal.SIGKILL)


def stranger_at(folder):
    """A connection to the holder."""
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with short_path(str(folder / SOCKET)) as short:
        stranger.connect(short)
    return stranger


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: identity.is_suspended(identity.read_identity(pid)))


def descriptors_of(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_a_holder_survives_a_stranger_that_is_cut_off_while_it_speaks(start, tmp_path):
    """A job of the server's user can connect to the holder as often as it likes."""
    server = start()
    pid = holder_of(tmp_path)
    # its standard ones, the server's socket, and that of ::1 where there is one
    before = 4 + Path("/proc/net/if_inet6").exists()
    wait_until(lambda: descriptors_of(pid) == before)
    strangers = []
    for count in range(1, 33):  # as many as it takes at once
        strangers.append(stranger_at(tmp_path))
        wait_until(lambda count=count: descriptors_of(pid) == before + count)
    stop(pid)
    strangers[0].send(b"{}")
    strangers.append(stranger_at(tmp_path))
    os.kill(pid, signal.SIGCONT)
    assert select.select(strangers[:1], [], [], WAIT_S_MAX)[0]
    server.kill()
    assert (start(server.port).port, holder_of(tmp_path)) == (server.port, pid)
    for stranger in strangers:
        stranger.close()


def test_the_holder_imports_as_little_as_a_supervisor_does():
    """OpenSSL alone takes 4 MB for as long as a server runs."""
    code = "import sys, trainshed.service.ports.holder; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"hashlib", "asyncio", "logging", "pathlib"}.intersection(done.stdout.split())


def test_systemd_keeps_the_sockets_that_it_is_given(start, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(WAIT_S_MAX)
        name = f"{tmp_path.name}-{os.getpid()}"
        manager.bind(f"\0{name}")
        environ = {"NOTIFY_SOCKET": f"@{name}", "FDSTORE": "16"}
        first = start(environ=environ)
        data, (stored,), _, _ = socket.recv_fds(manager, 4096, 1)
        assert data.decode().splitlines() == ["FDSTORE=1", f"FDNAME=api.{first.port}"]
        data, (twin,), _, _ = socket.recv_fds(manager, 4096, 1)
        assert data.decode().split() == ["FDSTORE=1", f"FDNAME=api-twin.{first.port}", "FDPOLL=0"]
        os.close(twin)
        assert manager.recv(4096) == b"READY=1"
        assert not (tmp_path / NOTE).exists(), "no holder is needed beside systemd"
        first.kill()
    again = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": f"api.{first.port}"}
    with connect(first.port) as client:
        second = start(environ=again, passed=stored)
        os.close(stored)
        assert (second.port, client.recv(64)) == (first.port, b"welcome")


def test_systemd_keeps_no_socket_of_a_server_that_ends_without_jobs(start, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(WAIT_S_MAX)
        name = f"{tmp_path.name}-{os.getpid()}"
        manager.bind(f"\0{name}")
        server = start(environ={"NOTIFY_SOCKET": f"@{name}", "FDSTORE": "16"})
        assert server.do("end") == "False"
        messages = [manager.recv(4096).decode().splitlines() for _ in range(6)]
    names = [f"FDNAME={role}.{server.port}" for role in ("api", "api-twin")]
    assert messages[3:] == [["STOPPING=1"], *(["FDSTOREREMOVE=1", name] for name in names)]
