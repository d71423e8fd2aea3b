"""The tie between an attempt and the command that runs it in the foreground.

The command holds the other end of a socket pair.  It sends orders, and hears when there is
something to read.  The end of the pair is an order too: any end of the command, also SIGKILL,
ends the attempt and removes its folder, which no other process reads.
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

#: The pair's end is what a served supervisor has /dev/null for.
_STDIN: Final = 0
_READ_BYTES: Final = 1 << 12
_LINE_BYTES_MAX: Final = 1 << 16

#: Takes an order, and what the log is to say of it.
Obey = Callable[[Order, str], object]


class OrderChannel:
    """The supervisor's end of the pair; the command sends an order a line."""

    def __init__(self, loop: Loop, obey: Obey, gone: Callable[[], object]) -> None:
        """Listen to the command; ``gone`` is called when it is gone, before that is obeyed."""
        os.set_blocking(_STDIN, False)
        self._loop = loop
        self._obey = obey
        self._gone = gone
        self._rest = b""
        self.is_cut = False
        """Whether the command is gone."""
        loop.on_readable(_STDIN, self._read)

    def poke(self) -> None:
        """Have the command look; one that has been poked and not looked yet needs no second."""
        with suppress(OSError):
            os.write(_STDIN, b".")

    def _read(self) -> None:
        data = b""
        try:
            data = os.read(_STDIN, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # as an end
            pass
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            take_order(read_message(line), self._obey)
        if not data or len(self._rest) > _LINE_BYTES_MAX:
            self._loop.forget(_STDIN)
            self.is_cut = True
            self._gone()
            self._obey(Order(0.0, "end", "the command that ran the job is gone"), "")


def read_message(data: bytes) -> dict[str, Any]:
    """The JSON object of a message; an empty one for anything else."""
    with suppress(ValueError, RecursionError):
        message = json.loads(data)
        if isinstance(message, dict):
            return message
    return {}


def take_order(
    message: Mapping[str, Any], obey: Obey, look: Callable[[], object] = lambda: None
) -> None:
    """Obey a message if it is an order to stop; ``look`` is called first."""
    if message.get("do") != "stop":
        return
    look()
    with suppress(ValueError, TypeError, OverflowError):
        order = Order(**message["order"]) if message.get("order") else None
        if order is not None:
            obey(order._replace(grace_s=float(order.grace_s)), message.get("words", ""))


def is_tethered() -> bool:
    """Whether a command runs this attempt in the foreground."""
    return stat.S_ISSOCK(os.fstat(_STDIN).st_mode)


def remove_folder(folder: AttemptFolder) -> None:
    """Remove all that the command has made for this one attempt."""
    with suppress(OSError):
        remove_tree(os.path.dirname(folder.job))
