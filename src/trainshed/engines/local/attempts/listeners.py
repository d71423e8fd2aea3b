"""Asks the supervisor of an attempt for the sockets that listen in the attempt's network."""

import json
import socket
import struct
from typing import Final

from trainshed.engines.base import JobListeners
from trainshed.engines.processes.descriptors import receive, to_sockets
from trainshed.engines.supervise.handing_over import DONE, HAND_OVER, SOCKETS
from trainshed.engines.supervise.record.folder import AttemptFolder, short_path

#: A supervisor normally answers within a millisecond.
_ANSWER_S: Final = 1.0
_MESSAGE_BYTES_MAX: Final = 64
_DESCRIPTORS_MAX: Final = 253


def ask_listeners(folder: AttemptFolder) -> JobListeners | None:
    """Return the sockets, which the caller closes; None if the supervisor sends none now."""
    own_end, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sockets: list[socket.socket] = []
    try:
        with other_end:
            _send(folder, other_end.fileno())
        own_end.settimeout(_ANSWER_S)
        while _receive(own_end, sockets) != DONE:
            pass
    except (OSError, EOFError):
        for opened in (own_end, *sockets):
            opened.close()
        return None
    return JobListeners(tuple(sockets), own_end)


def _send(folder: AttemptFolder, descriptor: int) -> None:
    """Ask the supervisor to send its sockets to a descriptor.  Raises OSError."""
    message = json.dumps({"do": HAND_OVER, "key": folder.read_key()}).encode()
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(_ANSWER_S)
        with short_path(folder.control) as path:
            sender.sendmsg([message], [rights], 0, path)


def _receive(own_end: socket.socket, sockets: list[socket.socket]) -> bytes:
    """Return the kind of a message, and add its sockets.  Raises OSError or EOFError."""
    kind, descriptors = receive(own_end, _MESSAGE_BYTES_MAX, _DESCRIPTORS_MAX)
    sockets += to_sockets(descriptors)
    if kind not in {SOCKETS, DONE}:
        raise EOFError
    return kind
