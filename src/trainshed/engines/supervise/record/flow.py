"""How much of what replicas write goes to the log: a rate, with room for what comes all at once.

Lines beyond the rate are dropped.  To let the programs wait instead would stop a training because
of a chatty library, and a log that is too long to read is of no use.
"""

from collections.abc import Iterator
from typing import Final

from trainshed.engines.supervise.record.spec import LogRule

#: What may come at once, in seconds of the rate.
BURST_S: Final = 16.0
#: How often it is said that lines were dropped.
SAY_S: Final = 10.0
#: What a line costs besides its text: its stamp, its replica, its severity.
_LINE_BYTES: Final = 64


class LogRateLimit:
    """Says of every line whether it is kept, and what there is to say of those that are not."""

    __slots__ = ("_dropped", "_dropped_bytes", "_is_full", "_room", "_rule", "_said_s", "_seen_s",
                 "_written")  # fmt: skip

    def __init__(self, rule: LogRule, now_s: float) -> None:
        """Begin with room for a burst."""
        self._rule = rule
        self._room = BURST_S * (rule.bytes_per_s or 0)
        self._seen_s = now_s
        self._said_s = now_s - SAY_S
        self._dropped = self._dropped_bytes = 0
        self._written = 0
        self._is_full = False

    def takes(self, text: str, now_s: float) -> bool:
        """Whether a line is kept; it counts."""
        length = len(text) if text.isascii() else len(text.encode(errors="surrogateescape"))
        size = length + _LINE_BYTES
        rate = self._rule.bytes_per_s
        if rate is not None:
            self._room = min(BURST_S * rate, self._room + (now_s - self._seen_s) * rate)
            self._seen_s = now_s
            if size > self._room:
                self._dropped += 1
                self._dropped_bytes += length
                return False
            self._room -= size
        self._written += size
        return True

    def takes_all(self, lines: int, length: int, now_s: float) -> bool:
        """Whether so many lines of so many bytes are all kept, and count; False: look at each."""
        size = length + lines * _LINE_BYTES
        rate = self._rule.bytes_per_s
        if rate is not None:
            self._room = min(BURST_S * rate, self._room + (now_s - self._seen_s) * rate)
            self._seen_s = now_s
            if size > self._room:
                return False
            self._room -= size
        self._written += size
        return True

    def sentences(self, now_s: float) -> Iterator[str]:
        """What the log should say now, seldom enough."""
        bytes_kept = self._rule.bytes_kept
        if bytes_kept is not None and self._written > bytes_kept and not self._is_full:
            self._is_full = True
            yield (
                f"The log has more than {bytes_kept} bytes (logs.bytes_max): its oldest lines are "
                "removed as new ones come."
            )
        if self._dropped and now_s - self._said_s >= SAY_S:
            self._said_s = now_s
            yield from self.last_sentences()

    def last_sentences(self) -> Iterator[str]:
        """What was not said yet, when nothing more will come."""
        if self._dropped:
            lines, were = ("lines", "were") if self._dropped > 1 else ("line", "was")
            yield (
                f"{self._dropped} {lines} with {self._dropped_bytes} bytes {were} dropped: the job "
                f"wrote more than {self._rule.bytes_per_s} bytes a second "
                "(limits.log_bytes_per_s_max)."
            )
        self._dropped = self._dropped_bytes = 0
