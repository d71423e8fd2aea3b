"""Follows whether a cluster answers: since when it does not, and why."""

import logging
import time

from trainshed.model.explanation import Explanation, Reason

_LOG = logging.getLogger(__name__)


class Reachability:
    """The last answer of a cluster, and its silence since; one thread writes, all may read."""

    def __init__(self, cluster: str) -> None:
        """``cluster`` is the subject of sentences, such as ``Slurm``."""
        self._cluster = cluster
        self._reason = ""
        self.away_since_s: float | None = None
        """Time of the first failure since the last answer, by the system clock; None: none."""
        self.answered_s: float | None = None
        """Time of the last answer, by the system clock; None: no answer yet."""

    def note_answer(self) -> bool:
        """Note an answer; return whether it ends a silence."""
        self.answered_s = time.time()
        was_away = self.away_since_s is not None
        self.away_since_s = None
        if was_away:
            _LOG.warning("%s answers again", self._cluster)
        return was_away

    def note_failure(self, why: str) -> bool:
        """Note a failure; return whether it begins a silence.

        Of a silence, only the first reason counts: a message that changes would be stored often.
        """
        if self.away_since_s is not None:
            return False
        self._reason = why
        self.away_since_s = time.time()
        _LOG.warning("%s does not answer: %s; retrying", self._cluster, why)
        return True

    def explain(self) -> Explanation | None:
        """Explain why the cluster does not answer, and since when; None: it answers."""
        since_s = self.away_since_s
        if since_s is None:
            return None
        since = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(since_s))
        return Explanation(
            reason=Reason.ENGINE_AWAY,
            message=f"{self._cluster} has not answered since {since}: {self._reason}",
        )
