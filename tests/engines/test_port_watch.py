"""Jobs that meet at a port of the machine get a warning in both logs."""

import os
import subprocess
import sys

import pytest

from engines.attempts import KEY, OTHER, ended, engine_at, lines, marked, order
from engines.support import wait_until
from trainshed.engines.local import port_watch
from trainshed.engines.local.port_meetings import (
    Meeting,
    SocketHolder,
    find_meetings,
    list_candidates,
    pair_connections,
)
from trainshed.engines.local.port_watch import PortWatch
from trainshed.engines.processes.socket_table import (
    SocketAddress,
    TcpSocket,
    find_holders,
    read_sockets,
)

LOOPBACK, ANY, OTHER_ADDRESS = "0100007F", "00000000", "0200007F"
ANY_V6 = "0" * 32

LISTENS = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print("ready", server.getsockname()[1], flush=True)
held = [server.accept()[0] for _ in range(2)]
import time; time.sleep(600)
"""
CONNECTS = """
import socket, time
held = [socket.create_connection(("127.0.0.1", {port})) for _ in range(2)]
print("ready", flush=True)
time.sleep(600)
"""
MEETS_ITSELF = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
held = socket.create_connection(server.getsockname()), server.accept()
print("ready", flush=True)
time.sleep(600)
"""
REUSES = """
import socket, time
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("127.0.0.1", {port}))
server.listen()
print("ready", server.getsockname()[1], flush=True)
time.sleep(600)
"""


def listening(address, port, inode=1):
    return TcpSocket(SocketAddress(address, port), SocketAddress(ANY, 0), inode, state="0A")


def connected(local, remote, inode):
    return TcpSocket(SocketAddress(*local), SocketAddress(*remote), inode, state="01")


def test_the_end_of_a_connection_that_listens_comes_second():
    client, server = (LOOPBACK, 40000), (LOOPBACK, 50000)
    ends = [connected(server, client, 1), connected(client, server, 2)]
    pairs = list(pair_connections([*ends, listening(ANY, 50000, 3)]))
    assert [(one.inode, other.inode) for one, other in pairs] == [(2, 1)]
    pairs = list(pair_connections(ends))
    assert [(one.inode, other.inode) for one, other in pairs] == [(1, 2)], "the lower port"


def test_a_connection_to_another_machine_has_no_second_end():
    assert list(pair_connections([connected((LOOPBACK, 40000), ("0A000001", 443), 1)])) == []


@pytest.mark.parametrize(
    ("one", "other", "is_one_place"),
    [
        (LOOPBACK, LOOPBACK, True),
        (ANY, LOOPBACK, True),
        (LOOPBACK, ANY_V6, True),
        (ANY, ANY_V6, True),
        (LOOPBACK, OTHER_ADDRESS, False),
    ],
)
def test_listeners_meet_where_a_connection_could_go_to_either(one, other, is_one_place):
    sockets = [listening(one, 6379, 1), listening(other, 6379, 2), listening(one, 6380, 3)]
    holders = {1: SocketHolder(10, KEY), 2: SocketHolder(20, OTHER), 3: SocketHolder(20, OTHER)}
    first, second = sorted((KEY, OTHER))
    meeting = Meeting(first, second, 6379, both_listen=True)
    assert list(find_meetings(sockets, holders)) == ([meeting] if is_one_place else [])
    assert set(list_candidates(sockets)) == {1, 2}


def test_sockets_of_one_attempt_do_not_meet():
    sockets = [listening(LOOPBACK, 6379, 1), listening(ANY, 6379, 2)]
    assert find_meetings(sockets, {1: SocketHolder(10, KEY), 2: SocketHolder(11, KEY)}) == {}


def test_a_job_that_listens_with_many_sockets_on_one_port_costs_the_server_little():
    """Each two of them were a pair: 20,000 sockets of one job took all memory of the server."""
    sockets = [listening(ANY, 6379, inode) for inode in range(1, 20_001)]
    holders = dict.fromkeys(range(1, 20_000), SocketHolder(10, KEY)) | {
        20_000: SocketHolder(20, OTHER)
    }
    assert len(set(list_candidates(sockets))) == len(sockets)
    assert len(find_meetings(sockets, holders)) == 1


def test_two_jobs_that_meet_at_many_ports_get_few_warnings(monkeypatch):
    sockets = [listening(ANY, port, 2 * port + job) for port in range(1, 1000) for job in (0, 1)]
    keys = {0: KEY, 1: OTHER}
    warned = []
    watch = PortWatch(lambda: {1: KEY, 2: OTHER}, lambda key, text: not warned.append((key, text)))
    monkeypatch.setattr(port_watch, "read_sockets", lambda **_: sockets)
    holders = {socket.inode: (1, keys[socket.inode % 2]) for socket in sockets}
    monkeypatch.setattr(port_watch, "find_holders", lambda *_: holders)
    for _ in range(3):
        watch.check()
    assert {key for key, _ in warned} == {KEY, OTHER}
    assert len(warned) == 2 * 8
    assert all("not reported" in text for _, text in warned[-2:])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_machine_s_sockets_are_read_and_their_holders_found(host):
    code = f"import socket, sys; s = socket.create_server(({host!r}, 0), family=socket.AF_INET"
    code += "6)" if ":" in host else ")"
    code += "; print(s.getsockname()[1], flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        port = int(child.stdout.readline())
        (inode,) = {s.inode for s in read_sockets() if s.is_listening and s.local.port == port}
        assert find_holders([inode, 1], {os.getpid(): "us"}) == {inode: (child.pid, "us")}
        child.stdin.close()


def warnings(root, key):
    messages = [line.text for line in lines(root, key=key) if line.severity == "WARNING"]
    return [text for text in messages if "port" in text]


def ready(root, key):
    """The last word of a replica that is ready."""

    def words():
        texts = [line.text for line in lines(root, key=key)]
        return next((text.split() for text in texts if text.startswith("ready")), None)

    return wait_until(words, "the replica is ready")[-1]


@pytest.fixture
def engine(root):
    engine = engine_at(root)
    yield engine
    for key in (KEY, OTHER):
        engine.stop(key, order(0.0))
        ended(engine, key)


def look_until_warned(engine, root):
    watch = PortWatch(engine._supervisors, engine._warn)
    wait_until(lambda: watch.check() or (warnings(root, KEY) and warnings(root, OTHER)), "warned")
    watch.check()
    return warnings(root, KEY), warnings(root, OTHER)


def test_a_job_that_connects_to_a_port_of_another_job_is_told_and_so_is_the_other(
    engine, root, mark
):
    engine.launch(KEY, marked(mark, LISTENS), ())
    port = ready(root, KEY)
    engine.launch(OTHER, marked(mark, CONNECTS.format(port=port)), ())
    ready(root, OTHER)
    (listens,), (connects,) = look_until_warned(engine, root)
    who = "master-replica-0"
    assert connects.startswith(f"{who} is connected to port {port}, on which another job listens.")
    assert listens.startswith(f"Another job is connected to port {port}, on which {who} listens.")
    assert "MASTER_PORT" in listens


def test_jobs_that_listen_on_one_port_together_are_told(engine, root, mark):
    engine.launch(KEY, marked(mark, REUSES.format(port=0)), ())
    port = ready(root, KEY)
    engine.launch(OTHER, marked(mark, REUSES.format(port=port)), ())
    ready(root, OTHER)
    for (text,) in look_until_warned(engine, root):
        assert text.startswith(f"master-replica-0 listens on port {port}, and so does another job")


def test_a_job_whose_processes_meet_is_told_nothing(engine, root, mark):
    engine.launch(KEY, marked(mark, MEETS_ITSELF), ())
    engine.launch(OTHER, marked(mark, MEETS_ITSELF), ())
    for key in (KEY, OTHER):
        ready(root, key)
    PortWatch(engine._supervisors, engine._warn).check()
    assert warnings(root, KEY) == warnings(root, OTHER) == []
