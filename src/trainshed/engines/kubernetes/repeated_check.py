"""Repeats the start check of a cluster in a thread, and remembers since when it has a trouble."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from trainshed.engines.kubernetes import start_check
from trainshed.engines.kubernetes.api.errors import ApiAway
from trainshed.engines.kubernetes.start_check import ClusterFacts

_LOG = logging.getLogger(__name__)

#: Seconds between two checks: while a part is missing, and else.
_TROUBLE_S: Final = 5.0
_REPEAT_S: Final = 300.0
#: Seconds between two looks whether a check is due.
_LOOK_S: Final = 0.5
#: Seconds for which ``close`` waits for the request that runs.
_CLOSE_S: Final = 2.0


class RepeatedCheck:
    """The last facts of one cluster.  Thread-safe."""

    def __init__(
        self,
        read_facts: Callable[[], ClusterFacts],
        *,
        is_denied: Callable[[], bool],
        on_facts: Callable[[ClusterFacts], None],
    ) -> None:
        """``is_denied`` says whether the API has just refused a request that a job needs.

        ``on_facts`` is called with the facts of every check, in the thread of the check.
        """
        self._read_facts = read_facts
        self._is_denied = is_denied
        self._on_facts = on_facts
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubernetes-check", daemon=True)
        self._checked_s = float("-inf")
        self.facts: ClusterFacts | None = None
        """The facts of the last check; None: the API has not answered one yet."""
        self.trouble = ""
        """Why no job can run on the cluster, with what helps; empty: no reason is known."""
        self.since_s = 0.0
        """Time, by the system clock, since when there is a trouble."""

    def start(self) -> None:
        """Start the thread; once."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, without waiting long for a request that runs."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            if self._is_due():
                self.check()
            self._closing.wait(_LOOK_S)

    def _is_due(self) -> bool:
        lacks_part = self.facts is None or bool(self.trouble) or bool(self.facts.missing_queues)
        is_soon = lacks_part or self._is_denied()
        return time.monotonic() - self._checked_s >= (_TROUBLE_S if is_soon else _REPEAT_S)

    def check(self) -> None:
        """Send the requests of a check, and store its facts if the API answers them."""
        self._checked_s = time.monotonic()
        try:
            facts = self._read_facts()
            self._note(facts)
            self._on_facts(facts)
        except ApiAway as error:
            _LOG.debug("cannot check the cluster: %s; retrying", error)
        except Exception:  # noqa: BLE001 - the next check may succeed
            _LOG.exception("cannot check the cluster; retrying")

    def _note(self, facts: ClusterFacts) -> None:
        trouble = start_check.explain_trouble(facts)
        if trouble and not self.trouble:
            self.since_s = time.time()
        if trouble and trouble != self.trouble:
            _LOG.warning("cannot run jobs on the cluster: %s; retrying", trouble)
        self.facts, self.trouble = facts, trouble
