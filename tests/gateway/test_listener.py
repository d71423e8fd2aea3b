"""One port for all that replicas speak, with bounds."""

import asyncio
import json
import logging
import os
import re
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.replica import TWO, WAIT_S_MAX, taken_port_of_jobs
from trainshed.api.connections import ConnectionLimits, Times
from trainshed.api.gateway.server import _THREADS_MAX
from trainshed.api.threads import THREADS, THREADS_MAX
from trainshed.engines.processes import identity
from trainshed.service.gateway.listening import GatewayListener
from trainshed.service.gateway.machine_sockets import FILE


def test_tls_is_spoken_to_whoever_begins_with_it(replica, world):
    world.put("direct", b"x")
    assert replica.tls(connect=False).ask("GET", "/mine/direct").body == b"x"


def test_another_api_of_googles_is_refused_at_once_as_an_answer(replica):
    answer = replica.tls("bigquery.googleapis.com").ask("GET", "/bigquery/v2/projects/p/jobs")
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["status"]) == (403, "PERMISSION_DENIED")
    assert error["message"].startswith("this server does not answer for bigquery.googleapis.com")


def test_other_hosts_are_reached_through_a_tunnel(replica, world, monkeypatch):
    lead_anywhere(world, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as far:

        def echo():
            sock, _ = far.accept()
            with sock:
                while piece := sock.recv(1 << 16):
                    sock.sendall(piece.upper())

        thread = threading.Thread(target=echo)
        thread.start()
        wire = replica.plain()
        # what comes with the head belongs to the other end
        wire.send(f"CONNECT localhost:{far.getsockname()[1]} HTTP/1.1\r\n\r\nearly")
        assert wire.answer().status == 200
        wire.send(b" and late")
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.rest() == b"EARLY AND LATE"
        thread.join(WAIT_S_MAX)


def lead_anywhere(world, monkeypatch):
    """Let tunnels lead to this machine: the hosts of a test are all here."""
    tunnels = world.serving._server._entrance.tunnels
    monkeypatch.setattr(tunnels, "_refuse", None)


def test_no_tunnel_leads_to_this_machine(replica):
    with socket.create_server(("127.0.0.1", 0)) as far:
        for host in ("localhost", "127.1", "[::ffff:127.0.0.1]"):
            wire = replica.plain()
            wire.send(f"CONNECT {host}:{far.getsockname()[1]} HTTP/1.1\r\n\r\n")
            answer = wire.answer()
            assert (answer.status, b"no tunnel may lead there" in answer.body) == (403, True)


def test_a_connection_whose_tunnel_fails_in_an_unknown_way_is_closed(replica, world, monkeypatch):
    def fail(*_args):
        raise UnicodeError("label too long")

    monkeypatch.setattr(world.serving._server._entrance.tunnels, "_is_full", fail)
    wire = replica.plain()
    wire.send("CONNECT far.example:80 HTTP/1.1\r\n\r\n")
    assert wire.rest() == b""


def test_a_host_that_cannot_be_reached_is_said_at_once(replica, world, monkeypatch):
    lead_anywhere(world, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as far:
        port = far.getsockname()[1]
    wire = replica.plain()
    wire.send(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n")
    answer = wire.answer()
    assert (answer.status, b"cannot be reached" in answer.body) == (502, True)


@pytest.mark.parametrize(
    "head",
    [
        "CONNECT x",
        "CONNECT host HTTP/1.1",
        "CONNECT :1 HTTP/1.1",
        "CX y z",
        "CONNECT host\nX-Forwarded-For:1 HTTP/1.1",
        "CONNECT host\n:443 HTTP/1.1",
        "CONNECT host\r:443 HTTP/1.1",
        "CONNECT user@host:443 HTTP/1.1",
        "CONNECT ho%0Ast:443 HTTP/1.1",
        "CONNECT h\xf6st:443 HTTP/1.1",
        "CONNECT [fe80::1%lo]:443 HTTP/1.1",
        "CONNECT host:0 HTTP/1.1",
        "CONNECT host:65536 HTTP/1.1",
        "CONNECT host:443 HTTP/1.1\r\nHost: a\r\nHost: b",
    ],
)
def test_a_connect_that_names_no_host_is_refused(replica, head):
    wire = replica.plain()
    wire.send(f"{head}\r\n\r\n")
    assert wire.answer().status == 400


@pytest.mark.parametrize("target", ["/", "/storage/v1/b/mine", "/computeMetadata/v1/"])
def test_a_request_with_two_hosts_is_refused(replica, target):
    for wire in (replica.plain(), replica.tls(connect=False)):
        wire.send(
            f"GET {target} HTTP/1.1\r\nHost: storage.googleapis.com\r\nHost: metadata\r\n\r\n"
        )
        answer = wire.answer()
        assert (answer.status, b"given twice" in answer.body) == (400, True)


def test_what_is_no_http_is_refused(replica):
    wire = replica.plain()
    wire.send("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
    assert wire.answer().status == 400


@pytest.mark.parametrize("size", [1000, 5 << 20])
def test_a_file_that_shrinks_while_it_is_served_is_one_line_in_the_log(
    replica, world, monkeypatch, caplog, size
):
    objects = type(world.objects)
    open_object = objects.open

    def open_and_shrink(self, bucket, name, *args, **named):
        opened = open_object(self, bucket, name, *args, **named)
        os.truncate(self.buckets.path(bucket) / name, size // 2)
        return opened

    world.put("shrinks", b"x" * size)
    monkeypatch.setattr(objects, "open", open_and_shrink)
    wire = replica.plain()
    wire.begin("GET", "/storage/v1/b/mine/o/shrinks?alt=media")
    answer = wire.rest() if size > 1000 else wire.answer().head.encode()
    assert (b" 200 " in answer) == (size > 1000)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    expected = ["cannot serve all of gs://mine/shrinks"] * (size > 1000)
    assert [line.partition(": ")[0] for line in lines] == expected
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    "bound", [{"attempt_connections_max": 2}, {"connections_max": 4}], ids=["its own", "of all"]
)
def test_an_attempt_has_a_bounded_number_of_connections(replica, world, monkeypatch, bound):
    """A number of its own, and no more than it leaves for others."""
    accepting = world.serving._server.servers[0]
    monkeypatch.setattr(accepting, "_entrance", replace(accepting._entrance, **bound))
    wires = [replica.plain() for _ in range(2)]
    for wire in wires:
        assert wire.ask("GET", "/storage/v1/b/mine").status == 200
    with pytest.raises((AssertionError, ConnectionError)):
        replica.plain().ask("GET", "/storage/v1/b/mine")
    world.caller = TWO
    assert replica.plain().ask("GET", "/storage/v1/b/mine").status == 200


def test_a_flood_of_connections_holds_no_more_descriptors_than_the_limit(
    replica, world, monkeypatch
):
    everyone = world.serving._server._connections
    monkeypatch.setattr(
        everyone, "limits", ConnectionLimits(connections=8, unauthenticated=4, per_address=4)
    )
    begun, go = threading.Event(), threading.Event()

    def slow_search(_theirs, _ours):
        begun.set()
        assert go.wait(WAIT_S_MAX)

    accepting = world.serving._server.servers[0]
    slow = replace(accepting._entrance, peer_at=slow_search)
    monkeypatch.setattr(accepting, "_entrance", slow)
    wires = [replica.plain() for _ in range(40)]
    for wire in wires:
        wire.send(b"G")
    assert begun.wait(WAIT_S_MAX)
    port = world.address[1]
    wait_until(lambda: server_sockets(port) <= 4 + len(world.serving._server.servers))
    assert len(list(everyone)) == 4
    go.set()


def server_sockets(port):
    """How many sockets of this process have the gateway's port as their own."""
    count = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(path.name)).st_mode):
                with socket.socket(fileno=os.dup(int(path.name))) as copy:
                    count += copy.family == socket.AF_INET and copy.getsockname()[1] == port
    return count


def wait_until(is_so):
    end = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < end
        threading.Event().wait(0.05)


@pytest.mark.parametrize(
    "begun", [b"", b"CONNECT host:443 HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n", b"\x16\x03"]
)
def test_whoever_begins_and_does_not_go_on_is_ended(replica, world, monkeypatch, begun):
    monkeypatch.setattr(world.serving._server._connections, "times", Times(head_s=0.1))
    wire = replica.plain()
    wire.send(begun)
    assert b" 200 " not in wire.rest()


class Echo:
    """Answers one connection with a byte."""

    def __init__(self):
        self.called = threading.Event()

    def __call__(self):
        self.called.set()
        return self

    def run(self, listeners, _jobs):
        sock, _ = listeners[0].accept()
        with sock:
            sock.sendall(b"x")

    def stop(self):
        pass

    def renew(self):
        return False


def receive_byte(place):
    with socket.create_connection((place.host, place.port), timeout=WAIT_S_MAX) as sock:
        return sock.recv(1)


def test_what_answers_is_made_when_somebody_connects_and_the_next_server_has_the_port(tmp_path):
    echo, again = Echo(), Echo()
    first = GatewayListener(tmp_path, echo)
    assert not (tmp_path / FILE).exists()
    place = first.open()
    assert (first.open(), echo.called.is_set()) == (place, False)
    assert receive_byte(place) == b"x"
    first.close()
    second = GatewayListener(tmp_path, again)
    second.open_again()
    assert (second.open().port, receive_byte(place)) == (place.port, b"x")
    second.close()


def test_nothing_is_opened_again_that_never_was(tmp_path):
    listener = GatewayListener(tmp_path, Echo())
    listener.open_again()
    listener.close()
    assert list(tmp_path.iterdir()) == []


def test_a_second_server_takes_the_place_of_the_first(tmp_path):
    echo = Echo()
    first = GatewayListener(tmp_path, Echo())
    place = first.open()
    document = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(
        json.dumps(document | {"server": identity.read_identity(1)})
    )  # as if another process had it
    second = GatewayListener(tmp_path, echo)
    assert second.open()[:2] == place[:2]
    first.close()
    for _ in range(WAIT_S_MAX * 10):
        try:
            assert receive_byte(place) == b"x"
            break
        except ConnectionRefusedError:
            threading.Event().wait(0.1)
    assert echo.called.is_set()
    second.close()


def test_a_second_server_gives_no_job_the_port_that_a_stranger_took_from_the_first(tmp_path):
    with (
        taken_port_of_jobs(tmp_path) as port,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as first,
    ):
        note = {"port": port, "server": identity.read_identity(first.pid)}
        (tmp_path / FILE).write_text(json.dumps(note))
        second = GatewayListener(tmp_path, Echo())
        assert (second.open().port, second.open().refusal) == (port, "")
        first.kill()
        wait_until(lambda: f"cannot listen on 127.0.0.1:{port}" in second.open().refusal)
    wait_until(lambda: not second.open().refusal)
    assert receive_byte(second.open()) == b"x"
    second.close()


def test_no_job_is_given_the_gateway_s_port_while_another_program_has_it(tmp_path):
    with taken_port_of_jobs(tmp_path) as port:
        listener = GatewayListener(tmp_path, Echo())
        listener.open_again()
        reason = f"cannot listen on 127.0.0.1:{port}: .* by process {os.getpid()} .*attempt 1/1"
        assert re.search(reason, listener.open().refusal)
    wait_until(lambda: not listener.open().refusal)
    assert (listener.open().port, receive_byte(listener.open())) == (port, b"x")
    listener.close()


def test_the_gateway_takes_another_port_where_no_job_was_given_the_first(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        (tmp_path / FILE).write_text(json.dumps({"port": port, "direct": None}))
        listener = GatewayListener(tmp_path, Echo())
        place = listener.open()
        assert (place.port != port, receive_byte(place)) == (True, b"x")
    listener.close()


def test_jobs_that_wait_for_the_disk_keep_no_call_of_the_api_waiting(replica, world, monkeypatch):
    busy, go = threading.Semaphore(0), threading.Event()
    find = world.objects.buckets.__class__.has

    def slow(*args):
        busy.release()
        assert go.wait(WAIT_S_MAX)
        return find(*args)

    monkeypatch.setattr(world.objects.buckets.__class__, "has", slow)
    wires = [replica.plain() for _ in range(THREADS_MAX + 1)]
    for wire in wires:
        wire.begin("GET", "/storage/v1/b/mine")
    for _ in range(_THREADS_MAX):
        assert busy.acquire(timeout=WAIT_S_MAX)
    assert asyncio.run(THREADS.run(len, "free")) == 4
    go.set()
    assert [wire.answer().status for wire in wires] == [200] * len(wires)
