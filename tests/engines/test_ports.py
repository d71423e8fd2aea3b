import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.engines.processes.ports import free_runs
from trainshed.model.faults import EngineFault


def free_ports(count, start=None):
    """Ports of replicas of one process each."""
    return free_runs((1,) * count, start)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 64))
def test_ports_are_distinct_and_all_can_be_bound_at_once(count):
    ports = free_ports(count)
    assert len(set(ports)) == len(ports) == count
    listeners = [socket.create_server(("127.0.0.1", port)) for port in ports]
    for listener in listeners:
        listener.close()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=8))
def test_a_replica_of_several_processes_has_neighbouring_ports(widths):
    firsts = free_runs(widths)
    ports = [first + n for first, width in zip(firsts, widths, strict=True) for n in range(width)]
    assert len(set(ports)) == len(ports) == sum(widths)
    listeners = [socket.create_server(("127.0.0.1", port)) for port in ports]
    for listener in listeners:
        listener.close()


def test_from_a_given_start_each_replica_begins_behind_the_one_before():
    start = free_runs((6,))[0]
    assert free_runs((1, 3, 2), start) == (start, start + 1, start + 4)


@pytest.fixture
def busy_port():
    """A port that is taken, behind one that is free."""
    pairs = iter(lambda: free_ports(2), ())
    port = next(after for before, after in pairs if after == before + 1)
    with socket.create_server(("127.0.0.1", port)) as listener:
        yield listener.getsockname()[1]


def test_from_a_given_start_ports_are_consecutive():
    (start,) = free_ports(1)
    assert free_ports(1, start) == (start,)
    assert free_ports(0, start) == ()


@pytest.mark.parametrize("before", [0, 1])
def test_a_port_taken_from_a_given_start_is_named_with_the_flag(busy_port, before):
    with pytest.raises(EngineFault, match=rf"port {busy_port} is in use .*--start-port"):
        free_ports(before + 1, busy_port - before)


def test_a_port_that_another_address_family_has_taken_is_not_free():
    try:
        listener = socket.create_server(("::1", free_ports(1)[0]), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 loopback here")
    with listener:
        port = listener.getsockname()[1]
        with pytest.raises(EngineFault, match=f"port {port} is in use"):
            free_ports(1, port)


@pytest.mark.parametrize(("count", "start"), [(1, 0), (1, -5), (3, 65534), (1, 70000)])
def test_a_start_that_leaves_no_room_is_refused(count, start):
    expected = rf"--start-port must be from 1 to \d+ for a job with {count} ports, got {start}"
    with pytest.raises(EngineFault, match=expected):
        free_ports(count, start)


def test_more_ports_than_can_be_found_are_refused():
    with pytest.raises(EngineFault, match="cannot find 100000 free ports"):
        free_ports(100_000)
