"""What a server does now and then, beside its work: old logs, old jobs, a look at the clock."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from trainshed.store.base import StoreFault

#: How often every chore is done.
EVERY_S: Final = 60.0
#: How long a server that ends waits for a chore under way; the next one begins it anew.
END_S: Final = 1.0
#: A clock that was set by less is not worth a word.
SKEW_S_MAX: Final = 5.0

_LOG = logging.getLogger(__name__)


class Housekeeping:
    """Does chores on a thread of its own; their failures are only logged."""

    def __init__(
        self, chores: Mapping[str, Callable[[], object]], every_s: float = EVERY_S
    ) -> None:
        """Chores by what they are for (``old logs``); first done after ``every_s`` seconds."""
        self._chores = dict(chores)
        self._every_s = every_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, also where it was never begun; what takes long is left in its midst."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join(END_S)

    def _run(self) -> None:
        while not self._end.wait(self._every_s):
            for name, perform in self._chores.items():
                if self._end.is_set():
                    return
                self._do(name, perform)

    def _do(self, name: str, perform: Callable[[], object]) -> None:
        try:
            perform()
        except (StoreFault, OSError) as fault:  # it comes and goes: no story to tell
            _LOG.warning("the housekeeping of %s failed and will be repeated: %s", name, fault)
        except Exception:  # noqa: BLE001  # it must not end the thread, nor the other chores
            _LOG.exception("the housekeeping of %s failed", name)


class ClockWatch:
    """Says when the machine's clock was set; the server's own goes on steadily.

    It draws near to the machine's all the time: only what leads away from it is a change.
    """

    def __init__(self, skew_s: Callable[[], float]) -> None:
        """``skew_s``: by how much the machine's clock is ahead of the server's own."""
        self._skew_s = skew_s
        self._seen_s = 0.0
        self._is_told = False

    def look(self) -> None:
        """Warn once for each change of more than ``SKEW_S_MAX``, and tell its end."""
        before_s, self._seen_s = self._seen_s, self._skew_s()
        if abs(self._seen_s) <= SKEW_S_MAX:
            if self._is_told:
                _LOG.info("the machine's clock agrees with the server's again")
            self._is_told = False
        elif not self._is_told or _leads_away(before_s, self._seen_s):
            self._is_told = True
            _LOG.warning(
                "the machine's clock was set: it is %.0f s %s the server's, which goes on steadily",
                abs(self._seen_s),
                "ahead of" if self._seen_s > 0 else "behind",
            )


def _leads_away(before_s: float, now_s: float) -> bool:
    return before_s * now_s < 0 or abs(now_s) > abs(before_s) + SKEW_S_MAX
