"""Receives messages on the attempt's socket: an order to stop, or lines for the log.

A message contains the order itself, because the disk may have been too full to write the order
file.  A sender cannot block the supervisor: a datagram arrives whole, and the supervisor reads one
in each turn of its loop.

The file mode of the socket excludes other users.  But a job may run as the same user, and Landlock
has no rule for sockets.  So a message must contain the secret of the attempt
(``AttemptFolder.key``), which jobs cannot read.  Also, its sender must not be a process of a job
(``senders``); the kernel names the sender.
"""

import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.processes.descriptors import descriptors_in
from trainshed.engines.processes.secret import is_same
from trainshed.engines.supervise.attempt import Attempt
from trainshed.engines.supervise.handing_over import SocketHandover
from trainshed.engines.supervise.kernel import senders
from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.folder import AttemptFolder, short_path
from trainshed.engines.supervise.record.tether import read_message, take_order

_PRIVATE: Final = 0o177
_MESSAGE_BYTES_MAX: Final = 1 << 18
_ROOT: Final = 0
#: struct ucred of unix(7): pid, uid, gid.
_CREDENTIALS: Final = "iII"
#: The control data of a message: its sender, and at most one descriptor (``handing_over``).
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(struct.calcsize(_CREDENTIALS)) + socket.CMSG_SPACE(
    struct.calcsize("i")
)


class Control:
    """The socket on which the supervisor of one attempt receives messages."""

    def __init__(
        self, loop: Loop, folder: AttemptFolder, attempt: Attempt, obey_file: Callable[[], object]
    ) -> None:
        """Listen, if the file system supports sockets; ``obey_file`` reads the order file again."""
        self._loop = loop
        self._path = folder.control
        self._key = folder.read_key().encode()
        self._attempt = attempt
        self._obey_file = obey_file
        self._has_refused = False
        self._handing_over = SocketHandover(lambda: attempt.listeners)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            self._bind()
        except OSError as error:
            attempt.output.note(
                f"The supervisor cannot listen on its socket ({error.strerror}): it reads orders "
                "from its folder every two seconds, and receives no lines from logging clients.",
                "WARNING",
            )
            return
        loop.on_readable(self._socket, self._read)

    def close(self) -> None:
        """Stop listening, and remove the socket."""
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
        with suppress(OSError):
            data, ancillary, _, _ = self._socket.recvmsg(
                _MESSAGE_BYTES_MAX, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
            )
            descriptors = [number for message in ancillary for number in descriptors_in(*message)]
            try:
                self._take(data, *_sender(ancillary), descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _take(self, data: bytes, pid: int, uid: int, descriptors: Sequence[int]) -> None:
        """Obey a message of the server and refuse any other.  Raises OSError."""
        message = read_message(data)
        if not self._is_from_server(message, pid, uid):
            self._refuse(pid, uid)
            return
        take_order(message, self._attempt.obey, self._obey_file)
        take_lines(message, self._attempt.output.add)
        self._handing_over.answer(message, descriptors)

    def _is_from_server(self, message: Mapping[str, Any], pid: int, uid: int) -> bool:
        """Return whether the server sent a message; always False if the attempt has no secret.

        An attempt of an earlier version of Trainshed has no secret.  The supervisor reads the order
        file every two seconds, so it still obeys an order whose message it has refused.
        """
        key = _valid_text(message.get("key")).encode()
        has_key = bool(self._key) and is_same(key, self._key)
        return has_key and uid in {_ROOT, os.geteuid()} and not senders.is_of_job(pid)

    def _refuse(self, pid: int, uid: int) -> None:
        """Log only the first refused message: a job may send any number of them."""
        if not self._has_refused:
            self._has_refused = True
            self._attempt.output.note(
                f"The supervisor refused a message from process {pid} of user {uid}: the sender is "
                "not the server. The supervisor does not log further refused messages.",
                "WARNING",
            )


def take_lines(
    message: Mapping[str, Any], add: Callable[[str, list[tuple[str, str]]], object]
) -> None:
    """Call ``add`` with the task and the lines of a message, if the message has lines."""
    if message.get("do") != "log":
        return
    with suppress(ValueError, TypeError, KeyError):
        lines = [(_valid_text(text), _valid_text(severity)) for text, severity in message["lines"]]
        add(_valid_text(message["task"]), lines)


def _valid_text(value: object) -> str:
    """Return a value as text; replace surrogates, which JSON allows and UTF-8 cannot encode."""
    return str(value).encode(errors="replace").decode()


def _sender(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int]:
    """Return the sender's pid and user id, which the kernel attaches to a message.

    Raises OSError if the message has no sender.
    """
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid, uid, _ = struct.unpack_from(_CREDENTIALS, data)
            return pid, uid
    raise OSError("the message has no credentials of a sender")
