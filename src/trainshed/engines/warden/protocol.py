"""How a launcher and its wardens talk: frames over TCP, each of JSON or of a program's bytes.

Before the first frame each proves to the other that it is of the same attempt (``proof``).  A frame
is five bytes, its length and its kind, and its content; nothing in it is ever run or unpickled.

What the launcher says (``do``): ``take``, ``start``, ``stop``, ``kill``, ``look``, ``ping``,
``leave``.  What a warden says (``is``): ``here``, ``note``, ``prepared``, ``started``, ``fault``,
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
#: What is said of a machine that wants its wardens to end, behind its name.
IS_LEFT: Final = "is to be left"
#: The program's bytes that one frame has at most, and all that a warden may say in one.
BYTES_MAX: Final = 1 << 18
WARDEN_FRAME_MAX: Final = 1 << 20
#: Environments may be large, and one of many replicas names all of them.
LAUNCHER_FRAME_MAX: Final = 1 << 26
#: Where the wardens of a step find their launcher: ``HOSTNAME;PORT;ADDRESS,...;VARIABLE``, the last
#: the name of one in which a node may find an address of the first node.
LAUNCHER: Final = "TRAINSHED_LAUNCHER"
SECRET: Final = "TRAINSHED_LAUNCHER_SECRET"  # noqa: S105 - a name, no secret
#: How long the other may take to prove who it is.
PROVE_S: Final = 5.0

_HEAD: Final = struct.Struct("!IB")
_READ_BYTES: Final = 1 << 18
#: The kernel asks for a sign of a machine that has been silent, and gives up on one without.
_KEEP_IDLE_S, _KEEP_EVERY_S, _KEEP_COUNT = 15, 5, 6


def message_of(kind: int, data: bytes) -> Mapping[str, Any]:
    """The message in a frame.  Raises ValueError for what is none."""
    message = json.loads(data) if kind == JSON else None
    if not isinstance(message, dict):
        raise ValueError("malformed message")  # noqa: TRY004 - as json.loads
    return message


def exit_path(folder: str, task_name: str) -> str:
    """Where a warden writes down how its replica ended, in the folder of the attempt."""
    return f"{folder}/exit-{task_name}.json"


class Channel:
    """One connection whose other end has proven itself."""

    def __init__(
        self,
        loop: Loop,
        end: socket.socket,
        frame_max: int,
        heard: Callable[[int, bytes], object],
        ended: Callable[[str], object],
    ) -> None:
        """``heard`` gets each frame, ``ended`` once why there will be no more."""
        self._loop = loop
        self._socket = end
        self._frame_max = frame_max
        self._heard = heard
        self._tell_end = ended
        self._buffer = b""
        self._going: deque[memoryview] = deque()
        self._is_paused = False
        self.waiting = 0
        """Bytes that could not be sent so far."""
        self.drained: Callable[[], object] = _nothing
        """Called whenever all has been sent."""
        self.is_open = True
        end.setblocking(False)
        _keep_alive(end)
        self._listen()

    def hear(self, heard: Callable[[int, bytes], object], ended: Callable[[str], object]) -> None:
        """Have others take frames, and the end."""
        self._heard = heard
        self._tell_end = ended

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message, now or as soon as the other takes it."""
        self.send(JSON, json.dumps(message).encode())

    def send(self, kind: int, data: bytes) -> None:
        """Send a frame."""
        if not self.is_open:
            return
        self._going.append(memoryview(_HEAD.pack(len(data), kind) + data))
        self.waiting += _HEAD.size + len(data)
        if len(self._going) == 1:
            self._flush()
            self._listen()

    def pause(self, on: bool) -> None:  # noqa: FBT001 - a switch
        """Read nothing for a while: the other will have to wait in its writes."""
        if self.is_open and on != self._is_paused:
            self._is_paused = on
            self._listen()

    def close(self) -> None:
        """Hear no more; ``ended`` is not called."""
        if self.is_open:
            self.is_open = False
            self._loop.watch(self._socket, _nothing, reads=False, writes=False)
            self._socket.close()

    def _listen(self) -> None:
        if self.is_open:
            self._loop.watch(
                self._socket, self._ready, reads=not self._is_paused, writes=bool(self._going)
            )

    def _ready(self) -> None:
        if self._going:
            self._flush()
        if self.is_open and not self._is_paused:
            self._read()
        self._listen()

    def _flush(self) -> None:
        try:
            while self._going:
                sent = self._socket.send(self._going[0])
                self.waiting -= sent
                if sent < len(self._going[0]):
                    self._going[0] = self._going[0][sent:]
                else:
                    self._going.popleft()
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error.strerror or str(error))
            return
        self.drained()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error.strerror or str(error))
            return
        if not data:
            self._end("it has closed the connection")
            return
        self._buffer = self._buffer + data if self._buffer else data
        try:
            self._take_frames()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._end(f"it said what makes no sense: {error!r:.200}")

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
            self._heard(kind, content)
        self._buffer = self._buffer[at:]

    def _end(self, why: str) -> None:
        if self.is_open:
            self.close()
            self._tell_end(why)


def give_up_after(end: socket.socket, seconds: float) -> None:
    """Have the connection break when the other machine takes nothing that was sent for so long.

    Only for a sender with a peer that reads all the time: a peer that pauses looks the same.
    """
    with suppress(OSError):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))


def _nothing() -> None:
    pass


def _keep_alive(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_IDLE_S)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEP_EVERY_S)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEP_COUNT)
