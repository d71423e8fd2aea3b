"""Sockets in the networks of jobs: each brings the calls of its own attempt, and of no other."""

import socket
import threading
from contextlib import suppress

import pytest

from gateway.replica import (
    ONE,
    OTHER,
    PROJECTS,
    TWO,
    WAIT_S_MAX,
    Replica,
    World,
    taken_port_of_jobs,
)
from trainshed.engines.base import JobListeners
from trainshed.service.gateway import job_networks
from trainshed.service.gateway.job_networks import JobNetworks
from trainshed.service.gateway.listening import GatewayListener
from trainshed.store.base import StoreFault


class Supervisors:
    """What the supervisors of attempts would hand over."""

    def __init__(self):
        self.ends = {}
        self.addresses = {}
        self.requests = []
        self.living = []
        self.expect = None
        self.counts = {}
        self.is_away = False

    def ask_listeners(self, key):
        self.requests.append(key)
        if key not in self.counts:
            return None
        ours, self.ends[key] = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(self.counts[key])]
        self.addresses[key] = [listener.getsockname() for listener in sockets]
        return JobListeners(tuple(sockets), ours)

    def on_network(self, expect):
        self.expect = expect

    def all_living(self):
        if self.is_away:
            raise StoreFault("away")
        return self.living


@pytest.fixture
def supervisors():
    supervisors = Supervisors()
    yield supervisors
    for end in supervisors.ends.values():
        end.close()


@pytest.fixture
def networks(supervisors):
    networks = JobNetworks(supervisors, supervisors.all_living, sockets_max=4)
    yield networks
    networks.close()


def wait_until(is_so):
    for _ in range(WAIT_S_MAX * 100):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError


def take_changes(networks, count=1):
    """Changes until there are so many."""
    opened, ended = [], []

    def enough():
        changes = networks.take()
        opened.extend(changes.opened)
        ended.extend(changes.ended)
        return len(opened) + len(ended) >= count

    wait_until(enough)
    return opened, ended


def test_an_attempt_that_begins_is_asked_until_it_answers(supervisors, networks):
    networks.start()
    supervisors.expect(ONE)
    wait_until(lambda: len(supervisors.requests) > 2)
    supervisors.counts[ONE] = 2
    opened, _ = take_changes(networks, 2)
    assert [change.key for change in opened] == [ONE, ONE]
    for change in opened:
        change.socket.close()


def test_an_attempt_that_does_not_answer_is_asked_for_as_long_as_it_lives(
    supervisors, networks, monkeypatch
):
    """Its supervisor may be suspended for hours, or wait for a GPU."""
    monkeypatch.setattr(job_networks, "_BEGIN_S", 0.0)
    monkeypatch.setattr(job_networks, "_LOOK_UP_S", 0.05)
    supervisors.living = [ONE]
    networks.start()
    wait_until(lambda: supervisors.requests.count(ONE) > 3)
    supervisors.living = []
    wait_until(lambda: not networks._waiting)
    supervisors.living = [ONE]
    supervisors.counts[ONE] = 1
    opened, _ = take_changes(networks)
    opened[0].socket.close()


def test_a_server_that_starts_asks_the_attempts_that_live(supervisors, networks):
    supervisors.living = [ONE, TWO]
    supervisors.counts = {ONE: 1, TWO: 0}
    supervisors.is_away = True
    networks.start()
    supervisors.is_away = False
    opened, _ = take_changes(networks)
    assert [change.key for change in opened] == [ONE]
    opened[0].socket.close()
    wait_until(lambda: TWO in supervisors.requests)
    assert supervisors.requests.count(TWO) == 1  # it has the machine's network


def test_sockets_of_an_attempt_that_ends_are_given_back(supervisors, networks):
    networks.start()
    supervisors.counts[ONE] = 1
    supervisors.expect(ONE)
    opened, _ = take_changes(networks)
    supervisors.ends[ONE].close()
    _, ended = take_changes(networks)
    assert ended == [opened[0].socket]
    ended[0].close()


def test_an_attempt_whose_sockets_would_be_too_many_is_not_served(supervisors, networks, caplog):
    networks.start()
    supervisors.counts = {ONE: 3, TWO: 2, OTHER: 1}
    for key, count in ((ONE, 3), (TWO, 0), (OTHER, 1)):
        supervisors.expect(key)
        if count:
            opened, _ = take_changes(networks, count)
            for change in opened:
                change.socket.close()
        wait_until(lambda key=key: key in supervisors.requests)
    wait_until(lambda: "cannot serve attempt" in caplog.text)


class InNetworks(World):
    """A gateway that finds no caller by its process."""

    def __init__(self, data_dir, supervisors):
        super().__init__(data_dir)
        self.caller = None
        supervisors.counts = dict.fromkeys(PROJECTS, 1)
        self.networks = JobNetworks(supervisors, supervisors.all_living)
        self.listener = GatewayListener(
            data_dir / "second", self.make_serving, networks=self.networks
        )
        self.listener.open()
        self.supervisors = supervisors

    def replica_of(self, key):
        self.address = self.supervisors.addresses[key][0]
        return Replica(self)


@pytest.fixture
def inside(tmp_path, supervisors):
    inside = InNetworks(tmp_path, supervisors)
    yield inside
    inside.listener.close()
    inside.close()


def test_a_caller_is_known_by_the_network_that_its_socket_listens_in(inside, supervisors):
    for key in (ONE, OTHER):
        supervisors.expect(key)
        wait_until(lambda key=key: key in supervisors.addresses)
    inside.put("x", b"of one")
    inside.put("x", b"of two", bucket="theirs")
    for key, own, foreign, content in (
        (ONE, "mine", "theirs", b"of one"),
        (OTHER, "theirs", "mine", b"of two"),
    ):
        replica = inside.replica_of(key)
        token = inside.token(key)
        assert replica.tls(connect=False).ask("GET", f"/{own}/x", token=token).body == content
        assert replica.plain().ask("GET", f"/storage/v1/b/{foreign}/o/x").status in (403, 404)
        replica.close()
    supervisors.ends[ONE].close()
    address = supervisors.addresses[ONE][0]
    wait_until(lambda: not is_open(address))
    assert is_open(supervisors.addresses[OTHER][0])


def test_jobs_with_networks_are_served_while_another_program_has_the_port(tmp_path, supervisors):
    with taken_port_of_jobs(tmp_path / "second") as port:
        inside = InNetworks(tmp_path, supervisors)
        supervisors.expect(ONE)
        wait_until(lambda: ONE in supervisors.addresses)
        inside.put("x", b"content")
        replica = inside.replica_of(ONE)
        assert (
            replica.tls(connect=False).ask("GET", "/mine/x", token=inside.token(ONE)).status == 200
        )
        assert "cannot listen" in inside.listener.open().refusal
    wait_until(lambda: not inside.listener.open().refusal)
    inside.address, inside.caller = ("127.0.0.1", port), TWO
    on_machine = Replica(inside)
    wire = on_machine.tls(connect=False)
    assert wire.ask("GET", "/mine/x", token=inside.token(TWO)).body == b"content"
    for connections in (replica, on_machine):
        connections.close()
    inside.listener.close()
    inside.close()


def is_open(address):
    with suppress(OSError), socket.create_connection(address, timeout=WAIT_S_MAX):
        return True
    return False


def test_a_tunnel_from_a_jobs_own_network_leads_to_public_addresses_alone(inside, supervisors):
    supervisors.expect(ONE)
    wait_until(lambda: ONE in supervisors.addresses)
    replica = inside.replica_of(ONE)
    for host, words in (("192.168.7.7", b"no public address"), ("127.0.0.1", b"this machine")):
        wire = replica.plain()
        wire.send(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n")
        answer = wire.answer()
        assert (answer.status, words in answer.body) == (403, True)
    replica.close()
