"""Whoever shows no token makes room, and whoever is too slow goes: by a clock that a test moves."""

import logging

import pytest

from trainshed.api.connections import (
    ConnectionLimits,
    Connections,
    ConnectionWait,
    Times,
    limits_of,
    network_of,
)

LIMITS = ConnectionLimits(connections=8, unauthenticated=4, per_address=2)
HERE, THERE, ELSEWHERE = "127.0.0.1", "192.0.2.7", "2001:db8::1"


class World:
    """Connections, and what became of each."""

    def __init__(self):
        self.now = 100.0
        self.cut, self.late = [], []
        self.all = Connections(LIMITS, Times(), clock=lambda: self.now)

    def connect(self, host=HERE, *, token=False, waits=None):
        connection = self.all.admit(host)
        if connection is not None:
            connection.cut = lambda: self.cut.append(connection)
            connection.late = lambda: self.late.append(connection)
            self.all.recognise(connection, authenticated=token)
            connection.waits = waits or connection.waits
        return connection


@pytest.fixture
def world():
    return World()


def test_the_oldest_of_an_address_makes_room_for_its_next(world):
    first, second = world.connect(), world.connect()
    other = world.connect(THERE)
    third = world.connect()
    assert world.cut == [first]
    assert None not in (second, other, third)


def test_the_address_that_has_most_pays_when_all_have_too_many(world):
    lone = world.connect(ELSEWHERE)
    many = [world.connect(THERE), world.connect(THERE)]
    world.connect("192.0.2.8")
    assert world.connect("192.0.2.9") is not None
    assert world.cut == many[:1]
    assert lone not in world.cut


def test_who_is_being_answered_is_never_cut_off(world):
    served = [
        world.connect(waits=ConnectionWait.ANSWER),
        world.connect(waits=ConnectionWait.ANSWER),
    ]
    assert world.connect() is None
    assert world.cut == []
    served[1].waits = ConnectionWait.NEXT
    assert world.connect() is not None
    assert world.cut == served[1:]


def test_a_token_takes_a_caller_out_of_the_count_until_it_is_refused(world):
    authenticated = [world.connect(token=True) for _ in range(4)]
    assert world.connect() is not None
    assert world.connect() is not None
    assert world.cut == []
    world.all.recognise(authenticated[0], authenticated=False)
    world.connect()
    assert len(world.cut) == 1


def test_where_all_are_in_use_an_idle_one_goes_and_no_upload_does(world):
    for _ in range(6):
        world.connect(token=True, waits=ConnectionWait.BODY)
    idle = world.connect(token=True, waits=ConnectionWait.NEXT)
    world.connect(token=True, waits=ConnectionWait.ANSWER)
    assert world.connect() is not None
    assert world.cut == [idle]
    assert world.connect() is not None  # in the place of the one that has shown nothing
    assert len(list(world.all)) == LIMITS.connections


def test_all_that_has_ended_is_forgotten(world):
    connections = [
        world.connect(f"192.0.2.{number % 3}", token=number % 2 == 0) for number in range(4)
    ]
    for connection in connections * 2:
        world.all.forget(connection)
    world.all.recognise(connections[0], authenticated=False)
    assert list(world.all) == []
    for number in range(LIMITS.unauthenticated):
        world.connect(f"192.0.2.{number}")
    assert world.cut == []


def test_a_head_has_its_time_and_an_answer_has_any(world):
    waiting, served = world.connect(), world.connect(waits=ConnectionWait.ANSWER)
    served.due = float("inf")
    world.now += Times().head_s
    world.all.sweep()
    assert world.late == []
    world.now += 0.1
    world.all.sweep()
    world.all.sweep()
    assert world.late == [waiting]


def test_nobody_is_late_whom_the_server_itself_lets_wait(world):
    upload = world.connect(token=True, waits=ConnectionWait.BODY)
    upload.is_paused = lambda: True
    world.now += 1000
    world.all.sweep()
    assert world.late == []
    upload.is_paused = lambda: False
    world.now += 1000
    world.all.sweep()
    assert world.late == [upload]


def test_a_flood_is_a_few_lines_that_say_how_many_and_why(world, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            world.connect()
            world.now += 0.25
        world.now += 60
        world.all.sweep()
    lines = [line for line in caplog.messages if "no valid token" in line]
    assert sum(int(line.split()[1]) for line in lines) == 998
    assert 25 <= len(lines) <= 27
    assert lines[1] == (
        "closed 40 connection(s), the last from 127.0.0.1: "
        "2 connections of one address have shown no valid token"
    )


@pytest.mark.parametrize("descriptors", [256, 1024, 20_000, 1 << 30])
def test_most_descriptors_are_kept_for_everything_else(descriptors):
    limits = limits_of(descriptors)
    assert 0 < limits.per_address < limits.unauthenticated < limits.connections
    assert limits.connections * 2 <= descriptors
    assert limits.connections <= 4096


def test_a_network_counts_as_one_address():
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("nobody knows") == "nobody knows"
