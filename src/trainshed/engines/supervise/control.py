"""Takes orders to stop, and lines for the log, on the attempt's socket, one message each.

The order itself comes along, for the case that no disk had room for it.  Nobody who sends can make
the supervisor wait: a message is there as a whole or not at all, and one is read a turn.

The mode of the socket keeps other users out; a job that is the same user is known by its process:
the kernel says who sends, and what descends from the supervisor gives it no orders.
"""

import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from trainshed.engines.processes import tree
from trainshed.engines.supervise.attempt import Attempt
from trainshed.engines.supervise.folder import AttemptFolder, short_path
from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.tether import take_order

_PRIVATE: Final = 0o177
_MESSAGE_BYTES_MAX: Final = 1 << 18
_ROOT: Final = 0
#: struct ucred of unix(7): pid, uid, gid.
_CREDENTIALS: Final = "iII"
#: The kernel's pid for a sender outside of our process namespace; jobs are inside.
_OUTSIDE: Final = 0


class Control:
    """The socket of one attempt."""

    def __init__(
        self, loop: Loop, folder: AttemptFolder, attempt: Attempt, look: Callable[[], object]
    ) -> None:
        """Listen, where the file system knows sockets; ``look`` looks for an order to stop."""
        self._loop = loop
        self._path = folder.control
        self._attempt = attempt
        self._look = look
        self._has_refused = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            self._bind()
        except OSError as error:
            attempt.output.note(f"The supervisor cannot be asked: {error.strerror}.", "WARNING")
            return
        loop.on_readable(self._socket, self._read)

    def close(self) -> None:
        """Listen to nobody any more."""
        with suppress(KeyError, ValueError):
            self._loop.forget(self._socket)
        self._socket.close()
        with suppress(OSError):
            os.unlink(self._path)

    def _bind(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        before = os.umask(_PRIVATE)
        try:
            with short_path(self._path) as path:
                self._socket.bind(path)
        finally:
            os.umask(before)

    def _read(self) -> None:
        size = socket.CMSG_SPACE(struct.calcsize(_CREDENTIALS))
        with suppress(OSError):
            data, ancillary, _, _ = self._socket.recvmsg(_MESSAGE_BYTES_MAX, size)
            pid, uid = _sender(ancillary)
            if uid in {_ROOT, os.geteuid()} and not _is_below(pid):
                take_order(data, self._attempt.obey, self._look)
                take_lines(data, self._attempt.output.add)
            elif not self._has_refused:  # once: a job may send as often as it likes
                self._has_refused = True
                self._attempt.output.note(
                    f"An order to the supervisor came from process {pid} of user {uid}, which is "
                    "of the job itself, or gone; it is refused, as all others like it will be.",
                    "WARNING",
                )


def take_lines(data: bytes, add: Callable[[str, list[tuple[str, str]]], object]) -> None:
    """Add the lines of a JSON object if it brings some."""
    with suppress(ValueError, TypeError, AttributeError, KeyError, RecursionError):
        found = json.loads(data)
        if found.get("do") == "log":
            add(
                str(found["task"]),
                [(str(text), str(severity)) for text, severity in found["lines"]],
            )


def _sender(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int]:
    """The process and user that the kernel has written to a message.  Raises OSError."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid, uid, _ = struct.unpack_from(_CREDENTIALS, data)
            return pid, uid
    raise OSError("nobody sent it")


def _is_below(pid: int) -> bool:
    """Whether a process may be the job's: one that descends from this, or is gone already.

    Nobody needs to wait for an answer to be believed: whoever has the right to order has written
    the order down before, and it is found there.
    """
    try:
        while pid not in {_OUTSIDE, os.getpid()}:
            pid = tree.parent_of(pid)
    except OSError:
        return True
    return pid != _OUTSIDE
