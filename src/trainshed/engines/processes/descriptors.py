"""Receives file descriptors from another process, all of them or none."""
# supervisors and the processes that hold ports import this module; it must need little memory

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Final

_DESCRIPTOR: Final = struct.Struct("i")


def receive(
    channel: socket.socket, bytes_max: int, descriptors_max: int
) -> tuple[bytes, list[int]]:
    """Receive data and the descriptors sent with it; the caller closes the descriptors.

    Children of this process do not inherit the descriptors.  Raises OSError.  If this process may
    not open so many files, the kernel drops some descriptors without an error; then this function
    closes the others and raises OSError (EMFILE).
    """
    # not socket.recv_fds: it accepts flags but ignores them
    room = socket.CMSG_LEN(descriptors_max * _DESCRIPTOR.size)
    data, ancillary, flags, _ = channel.recvmsg(bytes_max, room, socket.MSG_CMSG_CLOEXEC)
    descriptors = [descriptor for message in ancillary for descriptor in descriptors_in(*message)]
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "received descriptors")
    return data, descriptors


def descriptors_in(level: int, kind: int, data: bytes) -> Iterator[int]:
    """Yield the descriptors of one control message; none if it is of another kind."""
    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
        whole = len(data) - len(data) % _DESCRIPTOR.size
        yield from (descriptor for (descriptor,) in _DESCRIPTOR.iter_unpack(data[:whole]))


def to_sockets(descriptors: Sequence[int]) -> list[socket.socket]:
    """Make a socket from each descriptor.

    If a descriptor is not a socket, closes all descriptors and raises OSError.
    """
    sockets: list[socket.socket] = []
    try:
        for descriptor in descriptors:
            sockets.append(socket.socket(fileno=descriptor))  # noqa: PERF401 - closed on an error
    except OSError:
        for open_socket in sockets:
            open_socket.close()
        for descriptor in descriptors[len(sockets) :]:
            os.close(descriptor)
        raise
    return sockets
