"""Connects an attempt with the command that runs it in the foreground.

The command has the other end of a socket pair.  The command sends orders, and the supervisor wakes
the command when there are new lines.  If the command ends, also by SIGKILL, the connection breaks:
the supervisor then ends the attempt and removes its folder, which no other process reads.
"""

import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.files.trees import remove_tree

#: The supervisor's end of the pair; the supervisor of a server has /dev/null as stdin.
_STDIN: Final = 0
_READ_BYTES: Final = 1 << 12
_LINE_BYTES_MAX: Final = 1 << 16

#: Obeys an order; the text is a sentence about it for the log.
Obey = Callable[[Order, str], object]


class OrderChannel:
    """The supervisor's end of the pair; each line from the command is an order."""

    def __init__(self, loop: Loop, obey: Obey, on_end: Callable[[], object]) -> None:
        """Listen to the command; when it has ended, call ``on_end`` before the order to stop."""
        os.set_blocking(_STDIN, False)
        self._loop = loop
        self._obey = obey
        self._on_end = on_end
        self._rest = b""
        self.is_cut = False
        """Whether the command has ended."""
        loop.on_readable(_STDIN, self._read)

    def poke(self) -> None:
        """Wake the command to read new lines; ignore a full socket, which has woken it already."""
        with suppress(OSError):
            os.write(_STDIN, b".")

    def _read(self) -> None:
        data = b""
        try:
            data = os.read(_STDIN, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # treated like the end of the connection
            pass
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            take_order(read_message(line), self._obey)
        if not data or len(self._rest) > _LINE_BYTES_MAX:
            self._loop.forget(_STDIN)
            self.is_cut = True
            self._on_end()
            self._obey(Order(0.0, "end", "the command that ran the job has ended"), "")


def read_message(data: bytes) -> dict[str, Any]:
    """Parse the JSON object of a message; return an empty one for any other data."""
    with suppress(ValueError, RecursionError):
        message = json.loads(data)
        if isinstance(message, dict):
            return message
    return {}


def take_order(
    message: Mapping[str, Any], obey: Obey, prepare: Callable[[], object] = lambda: None
) -> None:
    """If a message says "stop", call ``prepare`` and obey the order in the message, if any."""
    if message.get("do") != "stop":
        return
    prepare()
    with suppress(ValueError, TypeError, OverflowError):
        order = Order(**message["order"]) if message.get("order") else None
        if order is not None:
            obey(order._replace(grace_s=float(order.grace_s)), message.get("words", ""))


def is_tethered() -> bool:
    """Return whether a command runs this attempt in the foreground."""
    return stat.S_ISSOCK(os.fstat(_STDIN).st_mode)


def remove_folder(folder: AttemptFolder) -> None:
    """Remove the folder that the command has made for this one attempt."""
    with suppress(OSError):
        remove_tree(os.path.dirname(folder.job))
