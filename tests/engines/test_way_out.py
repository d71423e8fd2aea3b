"""The process that carries packets out of a job's network: its start, its ends, its failures."""

import os
from types import SimpleNamespace

import pytest

from engines.attempts import until
from engines.networks import launch_in_network
from trainshed.engines.isolation.modes import USERS
from trainshed.engines.network import namespaces
from trainshed.engines.network.choose import try_network
from trainshed.engines.network.namespaces import Hub
from trainshed.engines.network.rule import NetworkRule, replica_address
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.network import join as network
from trainshed.engines.supervise.network import way_out
from trainshed.model.attempt import Phase

TAKEN_TWICE = (("127.0.0.1", 39017), ("127.0.0.1", 39017))


def test_an_attempt_whose_network_cannot_be_made_names_the_reason(root, mark):
    engine = launch_in_network(root, mark, "pass", listeners=TAKEN_TWICE)
    fault = until(engine, Phase.LOST).fault
    assert "cannot make the network of the job" in fault
    assert "Address already in use" in fault


class Process:
    """Stands for slirp4netns."""

    pid = 0

    def __init__(self, *_, on_exit, **__):
        self.end = on_exit

    def start(self, *_, **__):
        """Nothing runs."""

    def kill(self):
        self.end(-9)


@pytest.fixture
def world(monkeypatch):
    """A loop, notes, and whether the program is installed; no process is started."""
    world = SimpleNamespace(loop=Loop(), notes=[], program="/bin/true", processes=[], ways=[])

    def start(*args, **kwargs):
        world.processes.append(Process(*args, **kwargs))
        return world.processes[-1]

    monkeypatch.setattr(way_out, "Helper", start)
    monkeypatch.setattr(way_out, "TUN", os.devnull)
    monkeypatch.setattr(way_out, "find_program", lambda: world.program)
    monkeypatch.setattr(way_out, "_FIRST_PAUSE_S", 0.01)
    world.note = lambda text, _: world.notes.append(text)
    yield world
    for out in world.ways:
        out.kill()
    world.loop.close()


@pytest.fixture
def routes(monkeypatch):
    """A pipe that stands for the messages about routes; each says that the way out is there."""
    monkeypatch.setattr(way_out, "tells_default_route", bool)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield SimpleNamespace(reader=reader, writer=writer)
    os.close(reader)
    os.close(writer)


def started(world, routes):
    """A way out that works."""
    out = way_out.WayOut(world.loop, Children(), world.note)
    world.ways.append(out)
    out.start(Hub(None, routes.reader, routes.reader))
    os.write(routes.writer, b".")
    turn_until(world, lambda: out.is_ready)
    return out


def turn_until(world, condition):
    for _ in range(100):
        if condition():
            return
        world.loop.turn()
    raise AssertionError(world.notes)


def test_descriptors_of_a_network_that_was_not_made_can_be_watched_again(world):
    """The loop still had the number of a socket that was closed."""
    if why := try_network(USERS):
        pytest.skip(f"no network of a job's own here: {why}")
    rule = NetworkRule((replica_address(0),), listeners=TAKEN_TWICE)
    attempt = network.AttemptNetwork(rule, world.loop, Children(), world.note)
    with pytest.raises(OSError, match="Address already in use"):
        attempt.make()
    pipes = [os.pipe() for _ in range(8)]
    for reader, _ in pipes:
        world.loop.on_readable(reader, lambda: None)
    for reader, writer in pipes:
        world.loop.forget(reader)
        os.close(reader)
        os.close(writer)
    attempt.way_out.kill()


def test_a_way_out_is_started_again_once_its_program_is_back(world, routes):
    """As while a package is upgraded; a job had no way out from then on, without a word."""
    out = started(world, routes)
    world.program = ""
    world.processes[-1].end(-9)
    turn_until(world, lambda: any("is not installed" in note for note in world.notes))
    world.program = "/bin/true"
    turn_until(world, lambda: len(world.processes) == 2)
    assert "ended by signal 9" in world.notes[0]
    assert out.fault == ""


def test_a_way_out_that_cannot_be_started_again_does_not_end_the_job(world, routes, monkeypatch):
    started(world, routes)

    def no_pipe():
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(way_out.os, "pipe", no_pipe)
        world.processes[-1].end(1)
        turn_until(world, lambda: any("Too many open files" in note for note in world.notes))
    turn_until(world, lambda: len(world.processes) == 2)


def test_a_way_out_that_is_not_ready_in_time_is_said_to_be_late(world, routes, monkeypatch):
    monkeypatch.setattr(way_out, "START_S_MAX", 0.01)
    out = way_out.WayOut(world.loop, Children(), world.note)
    out.start(Hub(None, routes.reader, routes.reader))
    turn_until(world, lambda: out.fault)
    assert "no network connection within 0.01 s" in out.fault


def test_a_user_who_may_not_open_the_device_of_the_way_out_reads_which_it_is(
    world, routes, monkeypatch, tmp_path
):
    monkeypatch.setattr(way_out, "TUN", str(tmp_path / "tun"))
    out = way_out.WayOut(world.loop, Children(), world.note)
    out.start(Hub(None, routes.reader, routes.reader))
    assert out.fault == (
        "slirp4netns cannot open /dev/net/tun as the server's user; let that user read and write it"
    )


def test_a_mistake_in_the_child_that_makes_namespaces_is_named(monkeypatch):
    """Its parent said only that the child had ended."""
    if why := try_network(USERS):
        pytest.skip(f"no network of a job's own here: {why}")

    def fail(**_):
        raise ValueError("x" * 10_000)

    monkeypatch.setattr(namespaces, "_unshare", fail)
    with pytest.raises(OSError, match="ValueError"):
        namespaces.make_namespaces(NetworkRule((replica_address(0),)), owns_user=False)
