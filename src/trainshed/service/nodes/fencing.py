"""Lets an administrator confirm that an unreachable attempt has no running processes.

An unreachable node proves nothing, so its attempt stays UNKNOWN and its job waits.  An
administrator who has seen that the node is off confirms it.  The server cannot check this: it
writes the confirmation, with its author, into the events of the job before the engine acts on it.
"""

from dataclasses import dataclass
from typing import Final, NoReturn

from trainshed.engines.capabilities import SupportsFencing
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.faults import EngineFault
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobState
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import FENCED, NewEvent
from trainshed.wire.native_v1 import Answer

NOT_FENCED: Final = "NOT_FENCED"

_SEEN: Final = {
    Phase.WAITING: "it waits in the queue of {engine}, and nothing of it runs",
    Phase.STARTING: "{engine} sees it start",
    Phase.READY: "{engine} sees it run",
    Phase.ENDED: "{engine} has the record of its end",
    Phase.LOST: "{engine} knows already that it was lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedAttempt(Answer):
    """An attempt that an administrator confirmed to have no running process; it counts as lost."""

    job: str
    attempt: int
    engine: str
    message: str


@dataclass(frozen=True, slots=True)
class AttemptService:
    """Fences attempts, for administrators."""

    store: Store
    engines: Engines

    def fence(self, uid: int, attempt: int, administrator: str) -> FencedAttempt:
        """Mark an attempt as lost: ``administrator`` confirms that none of its processes runs.

        Raises Refusal for an attempt that has ended, or whose state its engine knows.
        """
        key = AttemptKey(uid, attempt)
        record = self._current(key)
        name = self.engines.name_of(key)
        engine = self._engine_of(name)
        self._refuse_if_known(key, record, name)
        self.store.add_event(uid, _fence_event(attempt, administrator))
        try:
            engine.fence(key)
        except EngineFault as fault:
            self.store.add_event(uid, _refusal_event(attempt, fault))
            _refuse(f"the engine {name} refuses to fence the attempt: {fault}")
        except OSError as error:
            message = f"the engine {name} cannot fence the attempt now ({error}); try again later"
            raise Refusal(Code.UNAVAILABLE, message) from error
        result = f"attempt {attempt} of {record.name} counts as lost"
        message = f"{result}; its story says what the job does next"
        return FencedAttempt(job=record.name, attempt=attempt, engine=name, message=message)

    def _current(self, key: AttemptKey) -> JobRecord:
        """Return the job of an active attempt.  Raises Refusal."""
        record = self.store.job_by_uid(key.uid)
        if record is None:
            raise Refusal(Code.NOT_FOUND, f"there is no job with the number {key.uid}")
        if key.attempt > record.attempt:
            newest = f"its newest is {record.attempt}" if record.attempt else "it has had none yet"
            message = f"{record.name} has no attempt {key.attempt}; {newest}"
            raise Refusal(Code.NOT_FOUND, message)
        state = record.job.status.state
        if key.attempt < record.attempt or state.is_final or state is JobState.QUEUED:
            _refuse(f"attempt {key.attempt} of {record.name} is over; the job is {state.value}")
        return record

    def _engine_of(self, name: str) -> SupportsFencing:
        engine = self.engines.find_by_name(name)
        if engine is None:
            raise Refusal(Code.UNAVAILABLE, f"this server runs without the engine {name}")
        if not isinstance(engine, SupportsFencing):
            message = f"the engine {name} always knows whether an attempt runs"
            _refuse(f"{message}; only an attempt whose state an engine cannot see can be fenced")
        return engine

    def _refuse_if_known(self, key: AttemptKey, record: JobRecord, name: str) -> None:
        for observation in self.engines.observe([key]):
            if observation.phase is not Phase.UNKNOWN:
                why = _SEEN[observation.phase].format(engine=name)
                _refuse(f"attempt {key.attempt} of {record.name} is not unknown: {why}")


def _fence_event(attempt: int, administrator: str) -> NewEvent:
    text = f"{administrator} says that no process of attempt {attempt} runs; it counts as lost."
    return NewEvent(kind=FENCED, message=text, data={"by": administrator, "severity": "WARNING"})


def _refusal_event(attempt: int, fault: EngineFault) -> NewEvent:
    text = f"Attempt {attempt} does not count as lost: {fault}."
    return NewEvent(kind=NOT_FENCED, message=text)


def _refuse(message: str) -> NoReturn:
    raise Refusal(Code.FAILED_PRECONDITION, message)
