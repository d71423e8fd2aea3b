"""What an engine remembers of one attempt, and what it can prove of it from its folder."""

import json
import logging
import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trainshed.engines.local.attempts import fence as fencing
from trainshed.engines.local.attempts.sweep import Sweeper
from trainshed.engines.processes import identity
from trainshed.engines.processes.identity import Identity
from trainshed.engines.supervise.judging import STOPPED_EARLY
from trainshed.engines.supervise.record import observe
from trainshed.engines.supervise.record.folder import AttemptFolder, Order, short_path
from trainshed.engines.supervise.record.observe import AttemptRecords, decided_outcome
from trainshed.engines.supervise.short_tmp import remove_short_name
from trainshed.files import room
from trainshed.model.attempt import AttemptKey, Observation, Phase

_LOG = logging.getLogger(__name__)

_SEND_S: Final = 0.2
#: A message has so many characters of text at most, each in up to twelve bytes of JSON, and what
#: is around each line counts as these.
_PART_LENGTH: Final = 1 << 14
_LINE_LENGTH: Final = 32
#: A supervisor that has not begun after this time, and is no child of ours, is given up (fenced).
BEGIN_S_MAX: Final = 60.0
#: How much longer than its grace a supervisor may stand still before it is killed.
STILL_S_MAX: Final = 30.0
#: How often it is looked whether one stands still: there may be thousands.
_LOOK_S: Final = 2.0


def send_order(folder: AttemptFolder, order: Mapping[str, Any]) -> bool:
    """Have a supervisor obey as soon as possible; False: it has not got the message."""
    return _send(folder, [{"do": "stop", "order": order}])


def send_lines(folder: AttemptFolder, task: str, lines: Sequence[tuple[str, str]]) -> bool:
    """Have a supervisor add lines to the log; False: it has not taken all of them."""
    return _send(folder, ({"do": "log", "task": task, "lines": part} for part in _parts(lines)))


def _parts(lines: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """The same lines, in messages that a socket takes."""
    part: list[tuple[str, str]] = []
    length = 0
    for text, severity in lines:
        for start in range(0, max(1, len(text)), _PART_LENGTH):
            piece = text[start : start + _PART_LENGTH]
            if part and length + len(piece) > _PART_LENGTH:
                yield part
                part, length = [], 0
            part.append((piece, severity))
            length += len(piece) + _LINE_LENGTH
    if part:
        yield part


def _send(folder: AttemptFolder, messages: Iterable[Mapping[str, Any]]) -> bool:
    key = folder.read_key()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(_SEND_S)
        try:
            with short_path(folder.control) as path:
                for message in messages:
                    sender.sendto(json.dumps({**message, "key": key}).encode(), path)
        except OSError:
            return False
    return True


@dataclass(slots=True)
class TrackedAttempt:
    """One attempt, to be read on from where the last look ended."""

    key: AttemptKey
    folder: AttemptFolder
    records: AttemptRecords = field(default_factory=AttemptRecords)
    child: int | None = None
    """The pid of a supervisor that this process has started and not yet collected."""
    forked: Identity | None = None
    """The same where a fork server is its parent."""
    was_ours: bool = False
    """Whether this process has started one: it then knows when it has ended."""
    _looked_s: float = float("-inf")
    _still_since_s: float | None = None
    _waits_since_s: float | None = None

    def is_running(self) -> bool:
        """Whether a supervisor that this process has started lives; an ended one is collected."""
        if self.child is not None and self._has_ended(self.child):
            self.child = None
        return self.child is not None

    def _has_ended(self, child: int) -> bool:
        if self.forked is not None:
            return not identity.lives(self.forked)
        try:
            return os.waitpid(child, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def may_begin(self) -> bool:
        """Whether nobody has begun it or ordered its end.  Raises OSError or ValueError."""
        self.records.read(self.folder.records)
        if self.records.began is not None or self.is_running():
            return False
        return self.folder.stop_order() is None

    def tell(self, order: Order) -> None:
        """Have the supervisor look for its order, and take it along should it not be on disk."""
        began = self.records.began
        if began is None or self.records.ended is not None:
            return
        who = fencing.identity_of(began)
        if not send_order(self.folder, order._asdict()):
            identity.send(who, signal.SIGTERM)
        if identity.is_suspended(who):
            identity.send(who, signal.SIGCONT)

    def observation(self, sweeper: Sweeper) -> Observation:
        """What can be proven now.  Raises what reading a folder can raise."""
        self.records.read(self.folder.records)
        if self.records.ended is None:
            if not self._lives():
                return observe.with_report(self._without_supervisor(sweeper), self.folder)
            self._end_one_that_stands_still()
        return observe.with_report(observe.recorded(self.key, self.records), self.folder)

    def _end_one_that_stands_still(self) -> None:
        """Kill a supervisor that is suspended though it was ordered to end.

        Its time is counted from when it was seen so, by the monotonic clock.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        who = fencing.suspended(self.folder, self.records.began)
        order = self.folder.stop_order() if who else None
        if who is None or order is None:
            self._still_since_s = None
            return
        if self._still_since_s is None:
            self._still_since_s = now_s
        if now_s - self._still_since_s >= order.grace_s + STILL_S_MAX:
            _LOG.warning(
                "the supervisor of attempt %s (process %d) is suspended and was to end: killed",
                self.key,
                who.pid,
            )
            identity.send(who, signal.SIGKILL)

    def _lives(self) -> bool:
        return self.is_running() or fencing.lives(self.folder, self.records.began)

    def _without_supervisor(self, sweeper: Sweeper) -> Observation:
        """Nobody holds the lock: what was written before it was released is all there will be."""
        records = self.records
        records.read(self.folder.records)
        if records.ended is not None:
            return observe.recorded(self.key, records)
        began = fencing.begun(self.folder, records)
        if began is None:
            return self._never_begun()
        if records.began is None:
            self._give_up()
        if not sweeper.is_clean(self.key, began, self.folder):
            return Observation(key=self.key, phase=Phase.UNKNOWN)
        room.release(self.folder.spare)
        remove_short_name(self.folder.tmp)
        if records.decided is not None:
            return observe.ended(self.key, records, decided_outcome(records.decided))
        why = self._last_words("its supervisor was killed")
        return observe.lost(self.key, records, why, observe.ran_s(self.folder))

    def _never_begun(self) -> Observation:
        order = self.folder.stop_order()
        if order is not None:
            remove_short_name(self.folder.tmp)
        if order is not None and order.lost:
            why = self._last_words("its supervisor never began")
            return observe.lost(self.key, self.records, why)
        if order is not None:
            return observe.ended(self.key, self.records, STOPPED_EARLY)
        plan = Path(self.folder.plan)
        if not plan.exists():
            return Observation(key=self.key, phase=Phase.UNKNOWN)
        if self.was_ours or self._has_waited():
            self._give_up()  # the next look says so
        return observe.recorded(self.key, self.records)

    def _has_waited(self) -> bool:
        """Whether a supervisor of another server, which was only late, would have begun.

        Its time is counted from the first look, by the monotonic clock.
        """
        if self._waits_since_s is None:
            self._waits_since_s = time.monotonic()
        return time.monotonic() - self._waits_since_s >= BEGIN_S_MAX

    def _give_up(self) -> None:
        """A supervisor that is only late may not begin from now on."""
        self.folder.give_order(Order(grace_s=0.0, reason="end", lost=True))

    def _last_words(self, otherwise: str) -> str:
        return observe.last_words(self.folder) or otherwise
