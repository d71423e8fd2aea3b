"""Limits the bytes a second that replicas write to the log, with an allowance for bursts.

Lines beyond the rate are dropped.  If the programs had to wait instead, a library that logs too
much would stop a training, and such a long log is of no use.
"""

from collections.abc import Iterator
from typing import Final

from trainshed.engines.supervise.record.spec import LogRule

#: The allowance for bursts, in seconds of the rate.
BURST_S: Final = 16.0
#: Seconds between two sentences about dropped lines.
REPORT_S: Final = 10.0
#: Bytes of a line besides its text: its stamp, its replica, its severity.
_LINE_BYTES: Final = 64


class LogRateLimit:
    """Decides for each line whether the log keeps it, and reports dropped lines."""

    __slots__ = (
        "_dropped",
        "_dropped_bytes",
        "_is_full",
        "_reported_s",
        "_room",
        "_rule",
        "_updated_s",
        "_written",
    )

    def __init__(self, rule: LogRule, now_s: float) -> None:
        """Begin with the full allowance for a burst."""
        self._rule = rule
        self._room = BURST_S * (rule.bytes_per_s or 0)
        self._updated_s = now_s
        self._reported_s = now_s - REPORT_S
        self._dropped = self._dropped_bytes = 0
        self._written = 0
        self._is_full = False

    def takes(self, text: str, now_s: float) -> bool:
        """Return whether the log keeps a line; count it as kept or dropped."""
        length = len(text) if text.isascii() else len(text.encode(errors="surrogateescape"))
        if self._admit(length + _LINE_BYTES, now_s):
            return True
        self._dropped += 1
        self._dropped_bytes += length
        return False

    def takes_all(self, lines: int, length: int, now_s: float) -> bool:
        """Return whether the log keeps ``lines`` lines of ``length`` bytes; if so, count them.

        False: the caller has to call ``takes`` for each line.
        """
        return self._admit(length + lines * _LINE_BYTES, now_s)

    def _admit(self, size: int, now_s: float) -> bool:
        """Return whether the rate leaves room for so many bytes; if so, count them."""
        rate = self._rule.bytes_per_s
        if rate is not None:
            self._room = min(BURST_S * rate, self._room + (now_s - self._updated_s) * rate)
            self._updated_s = now_s
            if size > self._room:
                return False
            self._room -= size
        self._written += size
        return True

    def sentences(self, now_s: float) -> Iterator[str]:
        """Yield sentences about removed and dropped lines, for the log.

        Yield the one about dropped lines at most every ``REPORT_S`` seconds.
        """
        bytes_kept = self._rule.bytes_kept
        if bytes_kept is not None and self._written > bytes_kept and not self._is_full:
            self._is_full = True
            yield (
                f"The log has more than {bytes_kept} bytes (logs.bytes_max): its oldest lines are "
                "removed when new lines are added."
            )
        if self._dropped and now_s - self._reported_s >= REPORT_S:
            self._reported_s = now_s
            yield from self.last_sentences()

    def last_sentences(self) -> Iterator[str]:
        """Yield a sentence about the lines dropped since the last such sentence, if any."""
        if self._dropped:
            noun, verb = ("lines", "were") if self._dropped > 1 else ("line", "was")
            yield (
                f"{self._dropped} {noun} with {self._dropped_bytes} bytes {verb} dropped: the job "
                f"wrote more than {self._rule.bytes_per_s} bytes a second "
                "(limits.log_bytes_per_s_max)."
            )
        self._dropped = self._dropped_bytes = 0
