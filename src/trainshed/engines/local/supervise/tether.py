"""The tie between an attempt and the command that runs it in the foreground.

The command holds the other end of a socket pair.  It sends orders, and hears when there is
something to read.  The end of the pair is an order too: whatever ends the command, however hard,
ends the attempt, and removes the folder that nobody will read any more.
"""

import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from trainshed.engines.local.attempts.folder import AttemptFolder, Order
from trainshed.engines.local.supervise.loop import Loop

#: The pair's end is what a served supervisor has /dev/null for.
_STDIN: Final = 0
_READ_BYTES: Final = 1 << 12
_LINE_BYTES_MAX: Final = 1 << 16

#: Takes an order, and what the log is to say of it.
Obey = Callable[[Order, str], object]


class Tether:
    """The supervisor's end of the pair."""

    def __init__(self, loop: Loop, obey: Obey) -> None:
        """Listen to the command."""
        os.set_blocking(_STDIN, False)
        self._loop = loop
        self._obey = obey
        self._reader = OrderReader(_STDIN, obey)
        self.is_cut = False
        """Whether the command is gone."""
        loop.on_readable(_STDIN, self._read)

    def poke(self) -> None:
        """Have the command look; one that has been poked and not looked yet needs no second."""
        with suppress(OSError):
            os.write(_STDIN, b".")

    def _read(self) -> None:
        if not self._reader.read():
            self._loop.forget(_STDIN)
            self.is_cut = True
            self._obey(Order(0.0, "end", "the command that ran the job is gone"), "")


class OrderReader:
    """Reads orders from a descriptor that does not block: one JSON object a line."""

    def __init__(
        self, descriptor: int, obey: Obey, look: Callable[[], object] = lambda: None
    ) -> None:
        """``look`` is called for a line with or without an order of its own."""
        self._descriptor = descriptor
        self._obey = obey
        self._look = look
        self._rest = b""

    def read(self) -> bool:
        """Take what has come; False: nobody sends any more, or nothing that is an order."""
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        return bool(data) and len(self._rest) <= _LINE_BYTES_MAX

    def _take(self, line: bytes) -> None:
        with suppress(ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            found = json.loads(line)
            if found.get("do") == "stop":
                self._look()
                order = Order(**found["order"]) if found.get("order") else None
                if order is not None:
                    self._obey(order._replace(grace_s=float(order.grace_s)), found.get("words", ""))


def is_tethered() -> bool:
    """Whether a command runs this attempt in the foreground."""
    return stat.S_ISSOCK(os.fstat(_STDIN).st_mode)


def remove_folder(folder: AttemptFolder) -> None:
    """Remove all that the command has made for this one attempt."""
    top = os.path.dirname(folder.job)
    for path, folders, files in os.walk(top, topdown=False):
        for name in files:
            with suppress(OSError):
                os.unlink(f"{path}/{name}")
        for name in folders:
            with suppress(OSError):
                (os.unlink if os.path.islink(f"{path}/{name}") else os.rmdir)(f"{path}/{name}")
    with suppress(OSError):
        os.rmdir(top)
