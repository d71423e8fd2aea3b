"""The protocol of a launcher and its wardens: frames over TCP with JSON or a program's output.

Before the first frame, each end proves to the other that it belongs to the attempt (``proof``).  A
frame has five bytes, for its length and its kind, and a content, which no end runs or unpickles.

Messages of the launcher (``do``): ``take``, ``start``, ``stop``, ``kill``, ``look``, ``ping``,
``leave``.  Messages of a warden (``is``): ``here``, ``note``, ``prepared``, ``started``, ``fault``,
``beat``, ``stacks``, ``exit``, ``ending``, ``empty``.
"""

import json
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.supervise.loop import Loop

#: Kinds of frames.
JSON, STDOUT, STDERR = 0, 1, 2
#: Follows the name of a node that has signalled its wardens to end.
ENDS_PROCESSES: Final = "is ending its processes"
#: Limits of a frame: output of a program, any frame of a warden, any frame of the launcher.  An
#: environment may be large, and names all replicas.
BYTES_MAX: Final = 1 << 18
WARDEN_FRAME_MAX: Final = 1 << 20
LAUNCHER_FRAME_MAX: Final = 1 << 26
#: The variable with the launcher's addresses for wardens: ``HOSTNAME;PORT;ADDRESS,...;VARIABLE``,
#: where VARIABLE names a variable of a node that may contain an address of the first node.
LAUNCHER: Final = "TRAINSHED_LAUNCHER"
SECRET: Final = "TRAINSHED_LAUNCHER_SECRET"  # noqa: S105 - a name, no secret
#: How long the other end may take for its proof.
PROVE_S: Final = 5.0

_HEAD: Final = struct.Struct("!IB")
_READ_BYTES: Final = 1 << 18
#: The kernel probes a machine that has been silent, and breaks the connection without an answer.
_KEEP_IDLE_S, _KEEP_EVERY_S, _KEEP_COUNT = 15, 5, 6


def message_of(kind: int, data: bytes) -> Mapping[str, Any]:
    """Parse the message in a frame.  Raises ValueError if it is not one."""
    message = json.loads(data) if kind == JSON else None
    if not isinstance(message, dict):
        raise ValueError("malformed message")  # noqa: TRY004 - as json.loads
    return message


def exit_path(folder: str, task_name: str) -> str:
    """Return the file in the attempt's folder to which a warden writes its replica's exit."""
    return f"{folder}/exit-{task_name}.json"


class Channel:
    """One connection between a launcher and a warden, after both proofs."""

    def __init__(
        self,
        loop: Loop,
        end: socket.socket,
        frame_max: int,
        on_frame: Callable[[int, bytes], object],
        on_end: Callable[[str], object],
    ) -> None:
        """``on_frame`` gets each frame; ``on_end`` gets once how the other end broke off."""
        self._loop = loop
        self._socket = end
        self._frame_max = frame_max
        self._on_frame = on_frame
        self._on_end = on_end
        self._buffer = b""
        self._unsent: deque[memoryview] = deque()
        self._is_paused = False
        self.waiting = 0
        """The number of unsent bytes."""
        self.drained: Callable[[], object] = _do_nothing
        """The function to call whenever all has been sent."""
        self.is_open = True
        end.setblocking(False)
        _keep_alive(end)
        self._listen()

    def hear(
        self, on_frame: Callable[[int, bytes], object], on_end: Callable[[str], object]
    ) -> None:
        """Replace the functions that get frames and the end."""
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
        self.waiting += _HEAD.size + len(data)
        if len(self._unsent) == 1:
            self._flush()
            self._listen()

    def pause(self, on: bool) -> None:  # noqa: FBT001 - a switch
        """Stop or continue reading; meanwhile the other end blocks in its writes."""
        if self.is_open and on != self._is_paused:
            self._is_paused = on
            self._listen()

    def close(self) -> None:
        """Close the connection, without a call of ``on_end``."""
        if self.is_open:
            self.is_open = False
            self._loop.watch(self._socket, _do_nothing, reads=False, writes=False)
            self._socket.close()

    def _listen(self) -> None:
        if self.is_open:
            self._loop.watch(
                self._socket, self._ready, reads=not self._is_paused, writes=bool(self._unsent)
            )

    def _ready(self) -> None:
        if self._unsent:
            self._flush()
        if self.is_open and not self._is_paused:
            self._read()
        self._listen()

    def _flush(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent[0])
                self.waiting -= sent
                if sent < len(self._unsent[0]):
                    self._unsent[0] = self._unsent[0][sent:]
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError as error:
            self._end(f"cannot be reached: {error.strerror or error}")
            return
        self.drained()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(f"cannot be reached: {error.strerror or error}")
            return
        if not data:
            self._end("closed the connection")
            return
        self._buffer = self._buffer + data if self._buffer else data
        try:
            self._take_frames()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._end(f"sent a malformed message: {error!r:.200}")

    def _take_frames(self) -> None:
        at = 0
        while self.is_open and len(self._buffer) - at >= _HEAD.size:
            length, kind = _HEAD.unpack_from(self._buffer, at)
            if length > self._frame_max:
                raise ValueError(f"a frame is too long: {length} bytes")
            end = at + _HEAD.size + length
            if len(self._buffer) < end:
                break
            content = self._buffer[at + _HEAD.size : end]
            at = end
            self._on_frame(kind, content)
        self._buffer = self._buffer[at:]

    def _end(self, why: str) -> None:
        if self.is_open:
            self.close()
            self._on_end(why)


def give_up_after(end: socket.socket, seconds: float) -> None:
    """Have the kernel break a connection on which sent bytes are not acknowledged for so long.

    Use this only if the peer always reads: a peer that pauses looks like a lost machine.
    """
    with suppress(OSError):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))


def _do_nothing() -> None:
    pass


def _keep_alive(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_IDLE_S)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEP_EVERY_S)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEP_COUNT)
