"""Performs commands as calls of the engine, then confirms them.

A crash between the call and the confirmation repeats the call, and engines make calls safe to
repeat.  A LAUNCH that is followed by a STOP is not performed.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeGuard

from trainshed.controller import story
from trainshed.controller.launches import Launches
from trainshed.controller.leases import Leases
from trainshed.controller.listener import ControllerListener
from trainshed.controller.steps import (
    ended_rows,
    fields_of,
    log_not_taken,
    log_with_story,
    step_of,
)
from trainshed.controller.worker import Pace
from trainshed.engines.base import LaunchRefused
from trainshed.engines.several import Engines
from trainshed.lifecycle.events import Command
from trainshed.lifecycle.outcome import (
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    Judgement,
    gave_up,
    hand_over_refused,
)
from trainshed.model.attempt import AttemptKey
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import EngineFault, Fault, is_transient
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.resources import SeatsOrClaim
from trainshed.model.status import JobState
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.observability.log_fields import log_fields
from trainshed.store.base import StoreFault
from trainshed.store.holdings import Holdings
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding, JobRecord
from trainshed.store.records.steps import NewEvent, StoredCommand

Compose = Callable[[JobRecord, int, SeatsOrClaim], LaunchPlan]

COMMANDS_MAX = 500
#: How often composing may fail unexpectedly before the server fails the job.
COMPOSE_TRIES_MAX = 5
_BACKOFF_S_MAX = 60.0
_CONFIRM_EVERY_S = 0.1
#: Jobs read together; launches take time, and the last row should still be current.
_RECORDS_AT_ONCE = 32

_CANCELLED = "The job was cancelled."
_OVER = "The job is over."

_Commands = Sequence[StoredCommand]
_ByKey = Mapping[AttemptKey, _Commands]


@dataclass(frozen=True, slots=True)
class _Delay:
    tries: int
    until: float
    away_from: str | None = None
    """The engine that did not answer, after whose next answer the command is tried at once."""


@dataclass(eq=False)
class Performer:
    """Performs the commands of the jobs that this server owns."""

    store: Store
    engines: Engines
    leases: Leases
    holdings: Holdings
    compose: Compose
    performed: Callable[[Collection[AttemptKey]], None]
    """Called with the attempts whose commands are confirmed."""
    pace: Pace
    monotonic: Callable[[], float]
    launches: Launches
    listener: ControllerListener
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _delays: dict[AttemptKey, _Delay] = field(default_factory=dict, init=False)
    _cancelled: Collection[int] = field(default=(), init=False)
    _handed_over: dict[AttemptKey, NewEvent] = field(default_factory=dict, init=False)
    """The events of launches into engines' queues that are not confirmed yet."""
    _launched: dict[AttemptKey, _Commands] = field(default_factory=dict, init=False)
    """The launches that other threads have performed and that the next pass confirms together."""

    def once(self) -> int:
        """Perform due commands; return how many were confirmed."""
        server = self.leases.name
        by_key = _by_key(self.store.commands(server, limit=COMMANDS_MAX))
        launched = self._take_launched()
        by_key = {
            key: commands
            for key, commands in by_key.items()
            if key not in launched or _stops(commands)
        }
        with self._lock:
            self._delays = {key: delay for key, delay in self._delays.items() if key in by_key}
        self._cancelled = self._being_cancelled(by_key, server)
        self.launches.forget_next()
        done = [command for commands in launched.values() for command in commands]
        confirmed, confirmed_at = 0, self.monotonic()
        for key, record in self._due(by_key):
            if _is_enqueued(record) and self._begin_in_thread(
                key, self.holdings.of(key), by_key[key]
            ):
                continue
            if self._perform(key, by_key[key], record, server):
                done += by_key[key]
            if done and self.monotonic() - confirmed_at >= _CONFIRM_EVERY_S:
                confirmed += self._confirm(done)
                confirmed_at = self.monotonic()
        return confirmed + self._confirm(done)

    def _take_launched(self) -> _ByKey:
        """Take the commands of the launches that other threads have performed.

        If the confirmation fails, the launches are repeated, which changes nothing.
        """
        with self._lock:
            launched, self._launched = self._launched, {}
        return launched

    def _due(self, by_key: _ByKey) -> Iterator[tuple[AttemptKey, JobRecord | None]]:
        """Yield due attempts, stops first; each launch with its job, read just before.

        Begin the launches that other threads perform; these are not yielded.
        """
        keys = [key for key in by_key if not self._is_delayed(key)]
        yield from ((key, None) for key in keys if _stops(by_key[key]))
        launches = iter(
            [
                key
                for key in keys
                if not _stops(by_key[key])
                and key not in self._launched
                and not self._begin_in_thread(key, self.holdings.get_cached(key), by_key[key])
            ]
        )
        while part := list(islice(launches, _RECORDS_AT_ONCE)):
            records = self.store.jobs_by_uid([key.uid for key in part])
            yield from ((key, records.get(key.uid)) for key in part)

    def _begin_in_thread(self, key: AttemptKey, held: Holding | None, commands: _Commands) -> bool:
        """Let another thread perform the launch, if the engine has such threads; return whether."""
        if held is None or held.claim is None or not self.launches.are_of(held.engine):
            return False
        launch = partial(self._launch_in_thread, key, commands, self.leases.name)
        self.launches.begin(held.engine, key, launch)
        return True

    def _launch_in_thread(self, key: AttemptKey, commands: _Commands, server: str) -> None:
        if self._perform(key, commands, self.store.job_by_uid(key.uid), server):
            with self._lock:
                self._launched[key] = commands

    def _being_cancelled(self, by_key: _ByKey, server: str) -> Collection[int]:
        """Return the jobs with a STOP that are CANCELLING; they get the default stop order."""
        uids = {key.uid for key, commands in by_key.items() if _stops(commands)}
        if not uids:
            return ()
        active = self.store.active(server, uids=uids)
        return {job.uid for job in active if job.state is JobState.CANCELLING}

    def _is_delayed(self, key: AttemptKey) -> bool:
        delay = self._delays.get(key)
        if delay is None or self.monotonic() >= delay.until:
            return False
        return delay.away_from is None or self.engines.check_health(delay.away_from) is not None

    def _confirm(self, done: list[StoredCommand]) -> int:
        count = len(done)
        if done:
            try:
                handed_over = {key: self._handed_over.pop(key, None) for key in _by_key(done)}
                events = {key.uid: event for key, event in handed_over.items() if event}
                self.store.confirm([command.seq for command in done], events)
            finally:  # also if the outcome of the commit is unknown
                self.performed({AttemptKey(command.uid, command.attempt) for command in done})
            done.clear()
        return count

    def _perform(
        self,
        key: AttemptKey,
        commands: Sequence[StoredCommand],
        record: JobRecord | None,
        server: str,
    ) -> bool:
        """Return whether an attempt's commands were performed; otherwise they are retried."""
        with log_fields(**fields_of(key, record)):
            try:
                if _stops(commands):
                    return self._stop(key, commands)
                return self._launch(key, record, server)
            except StoreFault:
                raise
            except Exception as error:  # noqa: BLE001 - written to the story; other jobs continue
                return self._retry_later(key, error)

    def _stop(self, key: AttemptKey, commands: Sequence[StoredCommand]) -> bool:
        if key.attempt > 0:
            engine, began = self.engines.get_by_attempt(key), self.monotonic()
            engine.stop(key, self._order(key, commands))
            self.listener.commanded("stop", self.monotonic() - began)
        return True

    def _order(self, key: AttemptKey, commands: Sequence[StoredCommand]) -> StopOrder:
        """Return the newest order: earlier orders belong to earlier states of the job."""
        newest = [command for command in commands if command.kind is Command.STOP][-1]
        if newest.stop is not None:
            return newest.stop
        if key.uid in self._cancelled:
            return StopOrder(
                grace_s=self.pace.grace_s, reason=StopReason.CANCEL, message=_CANCELLED
            )
        return StopOrder(grace_s=self.pace.grace_s, reason=StopReason.END, message=_OVER)

    def _launch(self, key: AttemptKey, record: JobRecord | None, server: str) -> bool:
        if not _is_to_begin(record, key):
            return True  # the job has ended or is being cancelled: a STOP exists or will follow
        held = self.holdings.of(key)
        if held is None:  # read later than the job, which may have ended since
            if _is_to_begin(self.store.job_by_uid(key.uid), key):
                raise AssertionError(f"attempt {key} must hold places before its launch")
            return True
        try:
            plan = self._compose_plan(record, key, held.place)
            engine, began = self.engines.assign(key, held.place), self.monotonic()
            engine.launch(key, plan, held.place)
            self.listener.commanded("launch", self.monotonic() - began)
        except LaunchRefused as refusal:
            if held.claim is None:
                raise
            return self._send_back(record, held, refusal.why, server)
        except (Fault, EngineFault, _CannotCompose) as error:
            if is_transient(error):
                raise
            return self._give_up(record, held, error, server)
        if held.claim is not None:
            self._handed_over[key] = story.handed_over(held.claim)
        return True

    def _compose_plan(self, record: JobRecord, key: AttemptKey, place: SeatsOrClaim) -> LaunchPlan:
        try:
            return self.compose(record, key.attempt, place)
        except (Fault, EngineFault, StoreFault):
            raise
        except Exception as error:
            tries = self._delays[key].tries + 1 if key in self._delays else 1
            if tries < COMPOSE_TRIES_MAX or is_transient(error):
                raise
            log_with_story(self.store, key.uid, "cannot compose")
            raise _CannotCompose(error) from error

    def _send_back(self, record: JobRecord, held: Holding, why: Explanation, server: str) -> bool:
        """Queue the job again for another attempt: this one never started."""
        step = step_of(record.active, hand_over_refused(why), server)
        events = () if record.refusals else (story.refused(held.engine, why),)
        return self.store.apply([replace(step, refused=why, events=events)])[0]

    def _give_up(self, record: JobRecord, held: Holding, error: Exception, server: str) -> bool:
        """Fail the job: no process of the attempt started.  Return False if its row has changed."""
        step = step_of(record.active, _judgement(error), server)
        rows = ended_rows(held, None) if held.claim is None else ()
        return self.store.apply([replace(step, replicas=rows)])[0]

    def _retry_later(self, key: AttemptKey, error: Exception) -> bool:
        tries = self._delays[key].tries + 1 if key in self._delays else 1
        pause = min(_BACKOFF_S_MAX, 2.0**tries / 4)
        if tries == 1:
            log_not_taken(self.store, key.uid, error)
            self.store.add_event(key.uid, story.not_taken(error))
        if tries == 1 and is_transient(error):
            self._explain_unavailable(key, error)
        with self._lock:
            self._delays[key] = _Delay(tries, self.monotonic() + pause, self._find_away(key))
        return False

    def _find_away(self, key: AttemptKey) -> str | None:
        """Return the engine of an attempt if it does not answer; None if it does."""
        name = self.engines.name_of(key)
        return None if self.engines.check_health(name) is None else name

    def _explain_unavailable(self, key: AttemptKey, error: Exception) -> None:
        """Store that a job waits because its engine is unavailable."""
        why = Explanation(
            reason=Reason.ENGINE_AWAY,
            message=f"The engine does not accept the job now: {error}",
            since_s=self.store.now().timestamp(),
        )
        self.store.explain({key.uid: why}, JobState.ENQUEUED)


def _is_enqueued(record: JobRecord | None) -> bool:
    return record is not None and record.job.status.state is JobState.ENQUEUED


def _is_to_begin(record: JobRecord | None, key: AttemptKey) -> TypeGuard[JobRecord]:
    if record is None or record.attempt != key.attempt:
        return False
    return record.job.status.state in {JobState.PREPARING, JobState.ENQUEUED}


class _CannotCompose(Exception):
    """Composing has failed repeatedly: a server bug, and the job must not wait forever."""


def _judgement(error: Exception) -> Judgement:
    if isinstance(error, _CannotCompose):
        return gave_up(f"The job could not be prepared: {error}", INTERNAL)
    code = INVALID_ARGUMENT if isinstance(error, Fault) else FAILED_PRECONDITION
    return gave_up(str(error), code)


def _by_key(commands: Sequence[StoredCommand]) -> _ByKey:
    by_key: defaultdict[AttemptKey, list[StoredCommand]] = defaultdict(list)
    for command in commands:
        by_key[AttemptKey(command.uid, command.attempt)].append(command)
    return by_key


def _stops(commands: Sequence[StoredCommand]) -> bool:
    return any(command.kind is Command.STOP for command in commands)
