"""The protocol of a launcher and its wardens: frames over TCP with JSON or a program's output.

Before the first frame, each end proves to the other that it belongs to the attempt (``proof``).  A
frame has five bytes, for its length and its kind, and a content, which is never run or unpickled.

A message names its purpose: orders of the launcher in the field ``do``, reports of a warden in the
field ``is``.

Messages of the launcher (``do``): ``take``, ``start``, ``stop``, ``kill``, ``look``, ``ping``,
``leave``.  Messages of a warden (``is``): ``here``, ``note``, ``prepared``, ``started``, ``fault``,
``beat``, ``stacks``, ``exit``, ``ending``, ``empty``.
"""

import _socket  # socket makes enums of all its constants, which need 0.6 MB in each warden
import json
import struct
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record import folder

#: Kinds of frames.
JSON, STDOUT, STDERR = 0, 1, 2
#: The streams of a program by the kind of their frames.
STREAMS: Final = {STDOUT: "stdout", STDERR: "stderr"}
ENDS_PROCESSES: Final = folder.ENDS_PROCESSES
#: Limits in bytes: the output in one frame, any frame of a warden, any frame of the launcher.  The
#: launcher sends environments, which may be large because they name all replicas.
BYTES_MAX: Final = 1 << 18
WARDEN_FRAME_MAX: Final = 1 << 20
LAUNCHER_FRAME_MAX: Final = 1 << 26
#: Seconds within which the other end must send its proof.
PROVE_S: Final = 5.0

_HEAD: Final = struct.Struct("!IB")
_READ_BYTES: Final = 1 << 18
#: TCP keepalive: after this many seconds without data, the kernel sends a probe at this interval in
#: seconds, and closes the connection after this number of probes without an answer.
_KEEP_IDLE_S, _KEEP_INTERVAL_S, _KEEP_COUNT = 15, 5, 6


def parse_message(kind: int, data: bytes) -> Mapping[str, Any]:
    """Parse the message in a frame.  Raises ValueError if the frame contains no message."""
    message = json.loads(data) if kind == JSON else None
    if not isinstance(message, dict):
        raise ValueError("a message must be a JSON object")  # noqa: TRY004 - as json.loads
    return message


def exit_path(path: str, task_name: str) -> str:
    """Return the file in an attempt's folder to which a warden writes its replica's exit."""
    return f"{path}/exit-{task_name}.json"


class Channel:
    """One connection between a launcher and a warden, after both proofs."""

    def __init__(
        self,
        loop: Loop,
        connection: _socket.socket,
        frame_max: int,
        on_frame: Callable[[int, bytes], object],
        on_end: Callable[[str], object],
    ) -> None:
        """Call ``on_frame`` with each frame, and ``on_end`` once with the reason for the end."""
        self._loop = loop
        self._socket = connection
        self._frame_max = frame_max
        self._on_frame = on_frame
        self._on_end = on_end
        self._buffer = b""
        self._unsent: deque[memoryview] = deque()
        self._is_paused = False
        self.unsent_bytes = 0
        """The number of bytes that are not sent yet."""
        self.drained: Callable[[], object] = _do_nothing
        """The function to call whenever all bytes have been sent."""
        self.is_open = True
        connection.setblocking(False)
        _keep_alive(connection)
        self._update_watch()

    def replace_callbacks(
        self, on_frame: Callable[[int, bytes], object], on_end: Callable[[str], object]
    ) -> None:
        """Replace the functions that are called with each frame and with the reason for the end."""
        self._on_frame = on_frame
        self._on_end = on_end

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message now, or as soon as the other end reads."""
        self.send(JSON, json.dumps(message).encode())

    def send(self, kind: int, data: bytes) -> None:
        """Send a frame now, or as soon as the other end reads."""
        if not self.is_open:
            return
        self._unsent.append(memoryview(_HEAD.pack(len(data), kind) + data))
        self.unsent_bytes += _HEAD.size + len(data)
        if len(self._unsent) == 1:
            self._flush()
            self._update_watch()

    def pause(self, on: bool) -> None:  # noqa: FBT001 - a switch
        """Stop or continue reading; meanwhile the writes of the other end block."""
        if self.is_open and on != self._is_paused:
            self._is_paused = on
            self._update_watch()

    def close(self) -> None:
        """Close the connection without calling ``on_end``."""
        if self.is_open:
            self.is_open = False
            self._loop.watch(self._socket, _do_nothing, reads=False, writes=False)
            self._socket.close()

    def _update_watch(self) -> None:
        if self.is_open:
            self._loop.watch(
                self._socket,
                self._handle_ready,
                reads=not self._is_paused,
                writes=bool(self._unsent),
            )

    def _handle_ready(self) -> None:
        if self._unsent:
            self._flush()
        if self.is_open and not self._is_paused:
            self._read()
        self._update_watch()

    def _flush(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent[0])
                self.unsent_bytes -= sent
                if sent < len(self._unsent[0]):
                    self._unsent[0] = self._unsent[0][sent:]
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError as error:
            self._end_with(f"cannot be reached: {error.strerror or error}")
            return
        self.drained()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end_with(f"cannot be reached: {error.strerror or error}")
            return
        if not data:
            self._end_with("closed the connection")
            return
        self._buffer = self._buffer + data if self._buffer else data
        try:
            self._take_frames()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._end_with(f"sent a malformed message: {error!r:.200}")

    def _take_frames(self) -> None:
        start = 0
        while self.is_open and len(self._buffer) - start >= _HEAD.size:
            length, kind = _HEAD.unpack_from(self._buffer, start)
            if length > self._frame_max:
                raise ValueError(f"a frame must have at most {self._frame_max} bytes, got {length}")
            frame_end = start + _HEAD.size + length
            if len(self._buffer) < frame_end:
                break
            content = self._buffer[start + _HEAD.size : frame_end]
            start = frame_end
            self._on_frame(kind, content)
        self._buffer = self._buffer[start:]

    def _end_with(self, reason: str) -> None:
        if self.is_open:
            self.close()
            self._on_end(reason)


def give_up_after(connection: _socket.socket, seconds: float) -> None:
    """Let the kernel close a connection whose sent bytes are not acknowledged for ``seconds``.

    Use this only if the peer always reads: a peer that pauses looks like a lost machine.
    """
    with suppress(OSError):
        connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_USER_TIMEOUT, round(seconds * 1000))


def _do_nothing() -> None:
    pass


def _keep_alive(connection: _socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
        connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPIDLE, _KEEP_IDLE_S)
        connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPINTVL, _KEEP_INTERVAL_S)
        connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPCNT, _KEEP_COUNT)
