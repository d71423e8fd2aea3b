"""Observes one attempt of this machine: reads facts from its folder, and performs a decision.

``proof`` decides from the facts.
"""

import json
import logging
import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trainshed.engines.local.attempts import fence as fencing
from trainshed.engines.local.attempts.proof import LocalDecision, LocalFacts, what_is_proven
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
#: The maximum number of characters in one message; a character takes up to twelve bytes of JSON.
#: The JSON around a line counts as ``_LINE_LENGTH`` characters.
_PART_LENGTH: Final = 1 << 14
_LINE_LENGTH: Final = 32
#: Seconds between two checks whether a supervisor is suspended: there may be thousands of
#: supervisors.
_CHECK_S: Final = 2.0
#: Decisions after which the records of the attempt are reported.
_REPORTED: Final = frozenset({LocalDecision.RECORDED, LocalDecision.KILL, LocalDecision.GIVE_UP})


def send_order(folder: AttemptFolder, order: Mapping[str, Any]) -> bool:
    """Send an order to a supervisor; return False if it did not get the message."""
    return _send(folder, [{"do": "stop", "order": order}])


def send_lines(folder: AttemptFolder, task: str, lines: Sequence[tuple[str, str]]) -> bool:
    """Send lines for the log to a supervisor; return False if it did not get all of them."""
    parts = _split_lines(lines)
    return _send(folder, ({"do": "log", "task": task, "lines": part} for part in parts))


def _split_lines(lines: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Yield the lines, split into messages that fit a socket."""
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
    """One attempt, with its records as far as they were read."""

    key: AttemptKey
    folder: AttemptFolder
    records: AttemptRecords = field(default_factory=AttemptRecords)
    child: int | None = None
    """The pid of a supervisor that this process has started and not yet waited for."""
    forked: Identity | None = None
    """The identity of that supervisor if a fork server is its parent; else None."""
    was_ours: bool = False
    """Whether this process has started a supervisor, and so notices when the supervisor ends."""
    _checked_s: float = float("-inf")
    _suspended_since_s: float | None = None
    _waits_since_s: float | None = None

    def is_running(self) -> bool:
        """Return whether a supervisor that this process started runs; reap it if it has ended."""
        if self.child is not None and self._has_ended(self.child):
            self.child = None
        return self.child is not None

    def _has_ended(self, child: int) -> bool:
        if self.forked is not None:
            return not identity.is_alive(self.forked)
        try:
            return os.waitpid(child, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def may_begin(self) -> bool:
        """Return whether the attempt has not begun and has no order to stop.

        Raises OSError or ValueError.
        """
        self.records.read(self.folder.records)
        if self.records.began is not None or self.is_running():
            return False
        return self.folder.stop_order() is None

    def notify_supervisor(self, order: Order) -> None:
        """Make the supervisor read its order; send the order too, in case it is not on disk."""
        began = self.records.began
        if began is None or self.records.ended is not None:
            return
        supervisor = fencing.identity_of(began)
        if not send_order(self.folder, order._asdict()):
            identity.send_signal(supervisor, signal.SIGTERM)
        if identity.is_suspended(supervisor):
            identity.send_signal(supervisor, signal.SIGCONT)

    def observation(self, sweeper: Sweeper) -> Observation:
        """Return the state of the attempt.  Raises any error of reading its folder."""
        facts = self._read_facts()
        decision = what_is_proven(facts)
        if decision is LocalDecision.SWEEP:
            facts = replace(facts, is_clean=self._is_clean(sweeper))
            decision = what_is_proven(facts)
        return observe.with_report(self._perform_decision(decision), self.folder)

    def _read_facts(self) -> LocalFacts:
        self.records.read(self.folder.records)
        if self.records.ended is not None:
            return LocalFacts(has_ended=True)
        if self.is_running() or fencing.has_living_supervisor(self.folder, self.records.began):
            return self._read_facts_of_living()
        # the supervisor's lock is free, so the records are complete now
        self.records.read(self.folder.records)
        if self.records.ended is not None:
            return LocalFacts(has_ended=True)
        if fencing.find_supervisor(self.folder, self.records) is not None:
            return LocalFacts(was_begun=True, has_decided=self.records.decided is not None)
        order = self.folder.stop_order()
        has_plan = order is None and Path(self.folder.plan).exists()
        waited_s = self._waited_s() if has_plan and not self.was_ours else 0.0
        return LocalFacts(order=order, has_plan=has_plan, was_ours=self.was_ours, waited_s=waited_s)

    def _read_facts_of_living(self) -> LocalFacts:
        """Return the facts of a living supervisor: whether it is suspended and was ordered to end.

        ``suspended_s`` counts from the first check that found this, by the monotonic clock.
        """
        now_s = time.monotonic()
        if now_s - self._checked_s < _CHECK_S:
            return LocalFacts(lives=True)
        self._checked_s = now_s
        is_suspended = fencing.find_suspended(self.folder, self.records.began) is not None
        order = self.folder.stop_order() if is_suspended else None
        if order is None:
            self._suspended_since_s = None
            return LocalFacts(lives=True)
        if self._suspended_since_s is None:
            self._suspended_since_s = now_s
        return LocalFacts(lives=True, order=order, suspended_s=now_s - self._suspended_since_s)

    def _waited_s(self) -> float:
        """Return how long this process has waited for a supervisor that another server started."""
        if self._waits_since_s is None:
            self._waits_since_s = time.monotonic()
        return time.monotonic() - self._waits_since_s

    def _is_clean(self, sweeper: Sweeper) -> bool:
        began = fencing.find_supervisor(self.folder, self.records)
        if self.records.began is None:
            self._prevent_start()
        return sweeper.ensure_clean(self.key, began, self.folder)

    def _perform_decision(self, decision: LocalDecision) -> Observation:
        """Perform a decision; return the state to report."""
        if decision is LocalDecision.KILL:
            self._kill()
        if decision is LocalDecision.GIVE_UP:
            self._prevent_start()
        if decision is LocalDecision.UNKNOWN:
            return Observation(key=self.key, phase=Phase.UNKNOWN)
        if decision in _REPORTED:
            return observe.compose_observation(self.key, self.records)
        return self._report_end(decision)

    def _report_end(self, decision: LocalDecision) -> Observation:
        """Report an end that the records do not contain, and remove leftovers of the supervisor."""
        remove_short_name(self.folder.tmp)
        if decision is LocalDecision.STOPPED_EARLY:
            return observe.compose_ended(self.key, self.records, STOPPED_EARLY)
        if decision is LocalDecision.NEVER_BEGAN:
            why = self._read_last_words("its supervisor never began")
            return observe.compose_lost(self.key, self.records, why)
        room.release(self.folder.spare)
        if self.records.decided is not None:
            return observe.compose_ended(
                self.key, self.records, decided_outcome(self.records.decided)
            )
        why = self._read_last_words("its supervisor was killed")
        return observe.compose_lost(self.key, self.records, why, self.folder)

    def _kill(self) -> None:
        supervisor = fencing.find_suspended(self.folder, self.records.began)
        if supervisor is not None:
            _LOG.warning(
                "killed the suspended supervisor of attempt %s (process %d) to end the attempt",
                self.key,
                supervisor.pid,
            )
            identity.send_signal(supervisor, signal.SIGKILL)

    def _prevent_start(self) -> None:
        """Write an order that prevents the start of a supervisor that is only late."""
        self.folder.give_order(Order(grace_s=0.0, reason="end", lost=True))

    def _read_last_words(self, default: str) -> str:
        return observe.last_words(self.folder) or default
