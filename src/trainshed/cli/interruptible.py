"""Reading what may be silent for hours, so that Ctrl-C is always obeyed."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

#: How long a Ctrl-C may go unnoticed.
LOOK_S: Final = 0.2
#: How many items are read ahead of a reader that is slow; a pager may pause for hours.
AHEAD_MAX: Final = 1000


class _End:
    """What stands behind the last item: the fault that ended the reading, or None."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault


def interruptible(items: Iterable[T]) -> Iterator[T]:
    """The items, read by a thread that does not keep the command from ending.

    Python runs a signal's handler between two steps of the main thread.  One that comes in the
    moment before a read begins would wait as long as the read does, so that the main thread never
    waits without end itself.  What the items raise is raised here.
    """
    taken: queue.Queue[T | _End] = queue.Queue(AHEAD_MAX)
    threading.Thread(target=_read, args=(items, taken), name="reading", daemon=True).start()
    while True:
        try:
            item = taken.get(timeout=LOOK_S)
        except queue.Empty:
            continue
        if not isinstance(item, _End):
            yield item
        elif item.fault:
            raise item.fault
        else:
            return


def _read(items: Iterable[T], taken: queue.Queue[T | _End]) -> None:
    try:
        for item in items:
            taken.put(item)
    except Exception as fault:  # noqa: BLE001  # it is the caller's
        taken.put(_End(fault))
    else:
        taken.put(_End())
