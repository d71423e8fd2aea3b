"""Descriptors from another process come all together, or none is left open."""

import os
import resource
import socket
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainshed.engines.processes import descriptors


@contextmanager
def room_for(count):
    """This process may open so many more files, and no more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = sorted(set(range(before[0])) - open_files())
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[count], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def open_files():
    return {int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists()}


@pytest.fixture
def channel():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_descriptors_for_which_there_is_no_room_are_an_error(channel):
    """The kernel drops some in silence: a supervisor would hold fewer devices than it leased."""
    ours, theirs = channel
    number = theirs.fileno()
    socket.send_fds(theirs, [b"x"], [number] * 50)
    before = open_files()
    with room_for(5), pytest.raises(OSError, match="Too many open files"):
        descriptors.receive(ours, 10, 60)
    assert open_files() == before


def test_descriptors_are_received_and_not_inherited(channel):
    ours, theirs = channel
    socket.send_fds(theirs, [b"x"], [theirs.fileno()] * 2)
    data, received = descriptors.receive(ours, 10, 60)
    assert data == b"x"
    assert [os.get_inheritable(descriptor) for descriptor in received] == [False, False]
    for connection in descriptors.to_sockets(received):
        connection.close()


def test_a_descriptor_that_is_no_socket_leaves_nothing_open(channel):
    _, theirs = channel
    before = open_files()
    numbers = [os.dup(theirs.fileno()), os.open(os.devnull, os.O_RDONLY), os.dup(theirs.fileno())]
    with pytest.raises(OSError, match="non-socket"):
        descriptors.to_sockets(numbers)
    assert open_files() == before
