"""Observes the attempts of this server's active jobs and writes what changed.

The jobs are cached as (state, version, attempt) and read again only after a sign of change.  An
observation without news costs one look-up; of many jobs, each pass observes a part, and those of
which the engine has news.  A refused write loses nothing: the row has changed, the observer
reads it again, and the next pass judges it again.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trainshed.controller import story
from trainshed.controller.hangs import Hangs
from trainshed.controller.leases import Leases
from trainshed.controller.model_folder import ModelFolders
from trainshed.controller.steps import (
    apply_all,
    events_of_attempt,
    log_with_story,
    newly_placed,
    place_step,
    planned_gain,
    step_of,
)
from trainshed.controller.waits import StoredWaits
from trainshed.controller.worker import Pace
from trainshed.engines.several import Engines
from trainshed.lifecycle.outcome import AttemptFacts, judge, matters, needs_facts
from trainshed.model.attempt import AttemptKey, Observation, Phase
from trainshed.model.job import Scheduling
from trainshed.model.resources import Seat
from trainshed.model.restarts import Budgets
from trainshed.model.status import JobState
from trainshed.store.base import StoreFault
from trainshed.store.holdings import Holdings
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Active, Holding, JobKind, JobRecord
from trainshed.store.records.steps import Step

#: Unconfirmed commands read at once; the rest are launched, and observed, later.
COMMANDS_MAX = 100_000
#: Attempts of one pass.  If more wait or run, each is observed once in several passes or on news.
AT_ONCE: Final = 50
PARTS_MAX: Final = 20
_NO_FACTS = AttemptFacts()
#: States that last: some engines report only the end of an attempt, not that it runs.
_LASTING: Final = frozenset({JobState.ENQUEUED, JobState.RUNNING})
_RUN_ON: Final = frozenset({JobState.PREPARING, JobState.RUNNING})


#: Phases after which a second step may follow at once.
_MOVES_ON: Final = frozenset({Phase.ENDED, Phase.READY})


@dataclass(frozen=True, slots=True)
class _Change:
    active: Active
    observation: Observation
    step: Step


@dataclass(eq=False)
class Observer:
    """Observes the attempts of this server's jobs."""

    store: Store
    engines: Engines
    leases: Leases
    holdings: Holdings
    hangs: Hangs
    budgets: Budgets
    pace: Pace
    model_folders: ModelFolders
    has_freed: bool = field(default=False, init=False)
    """Whether an attempt ended in the last pass: places are free, or commands are due."""
    _watched: dict[AttemptKey, Active] = field(default_factory=dict, init=False)
    _changed: deque[AttemptKey] = field(default_factory=deque, init=False)
    _reported: deque[AttemptKey] = field(default_factory=deque, init=False)
    _stale: bool = field(default=True, init=False)
    _waits: StoredWaits = field(init=False)
    _part: int = field(default=0, init=False)
    _known_places: dict[AttemptKey, tuple[Seat, ...]] = field(default_factory=dict, init=False)
    _unattended: frozenset[AttemptKey] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        self._waits = StoredWaits(self.store)

    def reload(self) -> None:
        """Read the active jobs again in the next pass; callable from any thread."""
        self._stale = True

    def look_at(self, keys: Iterable[AttemptKey]) -> None:
        """Read these attempts' jobs again; callable from any thread."""
        self._changed.extend(keys)

    def observe_soon(self, keys: Iterable[AttemptKey]) -> None:
        """Observe these attempts in the next pass; callable from any thread."""
        self._reported.extend(keys)

    @property
    def unattended(self) -> int:
        """Return the number of attempts with nodes of which no engine knows whether they run."""
        return len(self._unattended)

    def once(self, *, only_new: bool = False) -> int:
        """Observe, judge, write; return how many jobs changed state.

        ``only_new`` skips attempts that were observed before and have no news:
        there may be thousands.
        """
        server = self.leases.name
        new = self._refresh(server)
        reported = {self._reported.popleft() for _ in range(len(self._reported))}
        reported = {*new, *reported.intersection(self._watched)}
        keys: Collection[AttemptKey] = reported if only_new else self._due(reported)
        observations: Sequence[Observation] = self.engines.observe(tuple(keys))
        self._note_unknown(observations)
        steps = 0
        self.has_freed = False
        first = observations
        while observations:
            moved = self._write(self._judge_all(observations, server))
            steps += len(moved)
            self.has_freed |= any(change.step.state not in _RUN_ON for change in moved)
            # an attempt that ended before it was observed ready takes two steps, from a queue three
            observations = [
                change.observation
                for change in moved
                if change.observation.phase in _MOVES_ON and change.observation.key in self._watched
            ]
        self._waits.explain(first, self._watched)
        return steps

    def _note_unknown(self, observations: Sequence[Observation]) -> None:
        unknown = [one.key for one in observations if one.phase is Phase.UNKNOWN]
        if not unknown and not self._unattended:
            return
        # an attempt that is to be stopped is not observed until its engine has the command
        keys = self._unattended.difference(one.key for one in observations).union(unknown)
        held = self.holdings.refresh()
        self._unattended = frozenset(key for key in keys if _has_nodes(held.get(key.uid), key))

    def _due(self, reported: Collection[AttemptKey]) -> Collection[AttemptKey]:
        """Return the attempts to observe; of many that wait or run, a part in each pass."""
        parts = min(PARTS_MAX, -(-len(self._watched) // AT_ONCE))
        if parts <= 1:
            return self._watched
        self._part = (self._part + 1) % parts
        return [
            key
            for key, active in self._watched.items()
            if active.state not in _LASTING or key.uid % parts == self._part or key in reported
        ]

    def _refresh(self, server: str) -> Collection[AttemptKey]:
        changed = [self._changed.popleft() for _ in range(len(self._changed))]
        try:
            if self._stale:
                self._stale = False
                self._watched = self._load(server)
                self._waits.keep(self._watched)
                return self._watched
            if not changed:
                return ()
            for key in changed:
                self._watched.pop(key, None)
            new = self._load(server, {key.uid for key in changed})
        except StoreFault:
            self._stale = True  # read again in the next pass
            raise
        self._watched |= new
        return new

    def _load(self, server: str, uids: Collection[int] | None = None) -> dict[AttemptKey, Active]:
        """Return the jobs whose attempts have no unperformed commands.

        Before a LAUNCH is confirmed, an attempt unknown to the engine may still appear; before a
        STOP is confirmed, an absent attempt may still start.  Jobs are read before commands: both
        are committed together, so a command that is missing afterwards was performed.
        """
        jobs = self.store.active(server, uids=uids)
        active = {AttemptKey(job.uid, job.attempt): job for job in jobs}
        for command in self.store.commands(server, limit=COMMANDS_MAX, uids=uids):
            active.pop(AttemptKey(command.uid, command.attempt), None)
        return active

    def _judge_all(self, observations: Sequence[Observation], server: str) -> list[_Change]:
        changes, watched = [], self._watched
        for observation in observations:
            active = watched.get(observation.key)
            if active is None:
                continue
            try:
                if step := self._judge(active, observation, server):
                    changes.append(_Change(active, observation, step))
            except StoreFault:
                raise
            except Exception:  # noqa: BLE001 - logged with the story; other jobs continue
                self._watched.pop(observation.key)
                log_with_story(self.store, active.uid, f"cannot judge {observation.phase.name} of")
        return changes

    def _judge(self, active: Active, observation: Observation, server: str) -> Step | None:
        """Return the change after an observation; nearly always None."""
        if active.state is JobState.RUNNING:
            self.hangs.report_changes(observation)
        if matters(active.state, observation):
            facts = self._facts(active) if needs_facts(active.state, observation) else _NO_FACTS
            gain = None if observation.reduction is None else planned_gain(self.store, active.uid)
            event = self.model_folders.check(active.uid, judge(active.state, observation, facts))
            held = self._read_holding(observation)
            return step_of(
                active,
                event,
                server,
                observation=observation,
                held=held,
                planned_gain=gain,
                skew_s=self.store.clock_skew_s(),
            )
        if observation.placed and active.state in _RUN_ON and self._is_elsewhere(observation):
            return self._report_places(active, observation, server)
        if self.hangs.matters(active.state, observation):
            order = self.hangs.judge(observation, self._facts(active))
            return step_of(active, order, server) if order else None
        return None

    def _read_holding(self, observation: Observation) -> Holding | None:
        """Return what an attempt holds, with its places if an engine has reported them."""
        held = self.holdings.of(observation.key)
        if held is not None and held.claim is not None and not held.seats:
            self.holdings.refresh()
            held = self.holdings.of(observation.key)
        return held

    def _is_elsewhere(self, observation: Observation) -> bool:
        return self._known_places.get(observation.key) != observation.placed

    def _report_places(self, active: Active, observation: Observation, server: str) -> Step | None:
        """Return a step that writes new or changed places of an attempt."""
        held = self._read_holding(observation)
        placed = newly_placed(observation, held)
        if held is None or not placed:
            self._known_places[observation.key] = observation.placed
            return None
        return place_step(active, observation, placed, held, server)

    def _facts(self, active: Active) -> AttemptFacts:
        record = self.store.job_by_uid(active.uid)
        return AttemptFacts(
            attempt=active.attempt,
            job=_name_in_commands(record) if record else "",
            used=active.restarts,
            scheduling=record.job.spec.scheduling if record else Scheduling(),
            budgets=self.budgets,
            pending_error=record.job.status.error if record else None,
            paused=self._read_pause(record) if record else "",
        )

    def _read_pause(self, record: JobRecord) -> str:
        """Return why the study has ordered the attempt to end; empty if it has not."""
        if record.job.spec.trial is None or record.job.status.state is not JobState.RESTARTING:
            return ""
        events = events_of_attempt(self.store, record.uid, record.attempt)
        return next((why for event in events if (why := story.read_pause(event))), "")

    def _write(self, changes: Sequence[_Change]) -> Sequence[_Change]:
        applied = apply_all(self.store, [change.step for change in changes], self.pace.batch)
        by_outcome: Mapping[bool, list[_Change]] = {True: [], False: []}
        for change, was_applied in zip(changes, applied, strict=True):
            by_outcome[was_applied].append(change)
        if by_outcome[False]:
            self._stale = True
        for change in by_outcome[True]:
            self._update_watched(change)
        return by_outcome[True]

    def _update_watched(self, change: _Change) -> None:
        key = change.observation.key
        if change.step.state in _RUN_ON:
            state, version = change.step.state, change.active.version + 1
            explained = change.active.explained and state is change.active.state
            self._watched[key] = replace(
                change.active, state=state, version=version, explained=explained
            )
            if change.step.placed:
                self._known_places[key] = change.observation.placed
        else:
            self._watched.pop(key, None)
            self._known_places.pop(key, None)
            self.hangs.forget(key)
        if change.step.state is not change.active.state:
            self._waits.forget(key)


def _has_nodes(holding: Holding | None, key: AttemptKey) -> bool:
    return holding is not None and holding.attempt == key.attempt and not holding.enqueued


def _name_in_commands(record: JobRecord) -> str:
    """Return the id with which commands name a job; a trial of ml v1 has that of its row."""
    return str(record.uid) if record.kind is JobKind.TRIAL else record.job.job_id
