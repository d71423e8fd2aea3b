"""Receives descriptors from another process, all of them or none."""
# supervisors and holders of ports import this, and must stay small

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
    """Receive data and the descriptors that came along, which the caller closes.

    They are not inherited.  Raises OSError, also where this process may not open so many (EMFILE):
    the kernel drops some without an error.
    """
    # not socket.recv_fds, which takes flags and does not pass them on
    room = socket.CMSG_LEN(descriptors_max * _DESCRIPTOR.size)
    data, ancillary, flags, _ = channel.recvmsg(bytes_max, room, socket.MSG_CMSG_CLOEXEC)
    descriptors = [descriptor for message in ancillary for descriptor in descriptors_in(*message)]
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "received descriptors")
    return data, descriptors


def descriptors_in(level: int, kind: int, data: bytes) -> Iterator[int]:
    """Yield the descriptors of one control message; none where it is about something else."""
    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
        whole = len(data) - len(data) % _DESCRIPTOR.size
        yield from (descriptor for (descriptor,) in _DESCRIPTOR.iter_unpack(data[:whole]))


def to_sockets(descriptors: Sequence[int]) -> list[socket.socket]:
    """Make sockets of descriptors.  Raises OSError where one is no socket; then all are closed."""
    sockets: list[socket.socket] = []
    try:
        for descriptor in descriptors:
            sockets.append(socket.socket(fileno=descriptor))  # noqa: PERF401 - what was made counts
    except OSError:
        for open_socket in sockets:
            open_socket.close()
        for descriptor in descriptors[len(sockets) :]:
            os.close(descriptor)
        raise
    return sockets
