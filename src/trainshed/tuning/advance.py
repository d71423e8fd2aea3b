"""Computes the next step of a study from the states of its trials.

``advance`` is a pure function.  A server that was killed at any moment reads the same trials again
and takes the same step, so that no trial is made twice and none is lost.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Final

from trainshed.model.status import JobState
from trainshed.model.study import StudySpec
from trainshed.model.trials import (
    TRIAL_CREATED,
    TRIAL_ENDED,
    TRIAL_PAUSED,
    TRIAL_RESUMED,
    TRIAL_STOPPED_EARLY,
    EarlyStop,
    Measurement,
    TrialOrigin,
    TrialRecord,
    TrialState,
    text_of,
)
from trainshed.tuning.asha import pauses, promotions
from trainshed.tuning.ending import StudyEnding, ended, most_trials
from trainshed.tuning.first_points import origin_of, position_of
from trainshed.tuning.measuring import final
from trainshed.tuning.ranking import best, objectives
from trainshed.tuning.space import space_of
from trainshed.tuning.stopping import predicted, to_stop
from trainshed.tuning.study_step import Advance, StudyContext, StudyEvent, TrialSnapshot
from trainshed.tuning.suggest import suggest

#: Reasons of trials without a result that were stopped with their study.
ENDED_WITH_STUDY: Final = "The study ended while the trial ran."
CANCELLED_WITH_STUDY: Final = "The study was cancelled while the trial ran."
#: The reason of a study that ended as failed, if one of its last trials then succeeded.
SUCCEEDED_AFTER_STOP: Final = "The study has stopped its trials, but one of them still succeeded"

_OPEN: Final = frozenset({TrialState.ACTIVE, TrialState.STOPPING})
_UNDER_WAY: Final = _OPEN | {TrialState.PAUSED}


@dataclass(slots=True)
class _Study:
    spec: StudySpec
    trials: dict[int, TrialRecord]
    is_cancelled: bool
    snapshots: dict[int, TrialSnapshot] = field(default_factory=dict)
    """The trials before this step, with their jobs."""
    events: list[StudyEvent] = field(default_factory=list)

    def put(self, trial: TrialRecord, event: StudyEvent) -> None:
        self.trials[trial.number] = trial
        self.events.append(event)

    def in_states(self, *states: TrialState) -> list[TrialRecord]:
        return [trial for trial in self.trials.values() if trial.state in states]

    @property
    def places(self) -> int:
        """Return how many trials use places, with the paused ones whose jobs still run."""
        paused = self.in_states(TrialState.PAUSED)
        return len(self.in_states(*_OPEN)) + sum(map(self.runs, paused))

    def runs(self, trial: TrialRecord) -> bool:
        """Whether the job of a paused trial runs, or may start before the server holds it."""
        return not self.snapshots[trial.number].job_is_held


def advance(
    study: StudySpec, state: JobState, snapshots: Sequence[TrialSnapshot], context: StudyContext
) -> Advance:
    """Return the next step of an active study: its new state, trials and events."""
    before = {snapshot.trial.number: snapshot.trial for snapshot in snapshots}
    by_number = {snapshot.trial.number: snapshot for snapshot in snapshots}
    draft = _Study(study, dict(before), state is JobState.CANCELLING, by_number)
    for snapshot in snapshots:
        _follow_job(draft, snapshot, context.now)
    if state is JobState.CANCELLING:
        _stop_all(draft)
        return _result(draft, before, (), _state_when(draft, JobState.CANCELLED, state), None)
    ending = _ending(draft, context, exhausted=False) or _already_ended(draft)
    if context.has_news and (ending is None or not (ending.asap or ending.failed)):
        _stop_early(draft)  # the last trials of a study too
    if ending is None or ending.resumes:
        _resume(draft, has_news=context.has_news)
    if ending is None:
        new, exhausted = _new_trials(draft, context)
        if new or not exhausted or draft.places:
            return _result(draft, before, new, _running_state(draft, state), None)
        ending = _ending(draft, context, exhausted=True)
    return _finish(draft, before, ending, _running_state(draft, state))


def _finish(
    draft: _Study, before: dict[int, TrialRecord], ending: StudyEnding | None, state: JobState
) -> Advance:
    assert ending is not None, "a study that has no new trial must have an ending"  # noqa: S101
    if ending.asap or ending.failed:
        _stop_all(draft)
    elif not draft.places:  # no trial runs that could make a paused one the best of its rung
        _end_paused(draft)
    final_state = JobState.FAILED if ending.failed else JobState.SUCCEEDED
    state = _state_when(draft, final_state, state)
    if state is final_state:
        draft.events.append(StudyEvent("STUDY_ENDED", f"{ending.reason.rstrip('.')}."))
    return _result(draft, before, (), state, ending.reason if ending.failed else None)


def _ending(draft: _Study, context: StudyContext, *, exhausted: bool) -> StudyEnding | None:
    """Return the ending of the study, or None; trials stopped with the study are not failures."""
    trials = [t for t in draft.trials.values() if t.infeasible_reason != ENDED_WITH_STUDY]
    return ended(draft.spec, trials, began=context.began, now=context.now, exhausted=exhausted)


def _already_ended(draft: _Study) -> StudyEnding | None:
    """Return the ending of a study that has already stopped its trials; None for other studies."""
    if any(map(_is_stopped_with_study, draft.trials.values())):
        return StudyEnding(reason=SUCCEEDED_AFTER_STOP, asap=True)
    return None


def _is_stopped_with_study(trial: TrialRecord) -> bool:
    is_stopping = trial.state is TrialState.STOPPING and not trial.stopped_early
    return is_stopping or trial.infeasible_reason == ENDED_WITH_STUDY


def _running_state(draft: _Study, state: JobState) -> JobState:
    has_run = any(trial.start_time for trial in draft.trials.values())
    return JobState.RUNNING if has_run and state is JobState.PREPARING else state


def _state_when(draft: _Study, final_state: JobState, state: JobState) -> JobState:
    """Return the final state if all trials have ended, else the present state."""
    return state if draft.in_states(*_UNDER_WAY) else final_state


def _result(
    draft: _Study,
    before: dict[int, TrialRecord],
    new: tuple[TrialRecord, ...],
    state: JobState,
    error: str | None,
) -> Advance:
    changed = tuple(t for number, t in draft.trials.items() if t != before[number])
    return Advance(
        state=state,
        error=error if state.is_final else None,
        changed=changed,
        new=new,
        events=tuple(draft.events),
    )


def _follow_job(draft: _Study, snapshot: TrialSnapshot, now: datetime) -> None:
    trial = snapshot.trial
    if trial.state.is_final:
        return
    if trial.start_time is None and snapshot.job_start is not None:
        trial = replace(trial, start_time=snapshot.job_start)
        draft.trials[trial.number] = trial
    if snapshot.job_state.is_final:
        ended_trial = _end_trial(draft, trial, snapshot)
        ended_trial = replace(ended_trial, end_time=snapshot.job_end or now)
        trials = [*draft.trials.values()]
        message = trial_ended(draft.spec, ended_trial, trials)
        draft.put(ended_trial, StudyEvent(TRIAL_ENDED, message, {"trial": trial.number}))


def _end_trial(draft: _Study, trial: TrialRecord, snapshot: TrialSnapshot) -> TrialRecord:
    result = _final_of(draft, trial, snapshot)
    if isinstance(result, str):
        return replace(trial, state=TrialState.INFEASIBLE, infeasible_reason=result)
    return replace(trial, state=TrialState.SUCCEEDED, final=result)


def _final_of(draft: _Study, trial: TrialRecord, snapshot: TrialSnapshot) -> Measurement | str:
    if trial.stopped_early:
        prediction = predicted(draft.spec, tuple(draft.trials.values())).get(trial.number)
        if prediction is not None:
            return prediction
    if snapshot.job_state is JobState.SUCCEEDED or trial.stopped_early:
        return final(draft.spec, trial.measurements, snapshot.reports, snapshot.search_note)
    if trial.state is TrialState.STOPPING:
        return CANCELLED_WITH_STUDY if draft.is_cancelled else ENDED_WITH_STUDY
    outcome = "failed" if snapshot.job_state is JobState.FAILED else "was cancelled"
    return f"The trial's job {outcome}: {snapshot.job_message or 'the reason is unknown'}"


def _stop_all(draft: _Study) -> None:
    for trial in draft.in_states(TrialState.ACTIVE):
        draft.trials[trial.number] = replace(trial, state=TrialState.STOPPING)
    _end_paused(draft)


def _end_paused(draft: _Study) -> None:
    """End the paused trials as stopped ones, with the results that they have."""
    for trial in draft.in_states(TrialState.PAUSED):
        stopping = replace(trial, state=TrialState.STOPPING, stopped_early=True)
        message = f"Trial {trial.number}, paused at step {trial.paused_at}, ends with its study."
        draft.put(stopping, StudyEvent(TRIAL_STOPPED_EARLY, message, {"trial": trial.number}))


def _stop_early(draft: _Study) -> None:
    trials = tuple(draft.trials.values())
    for number, stop in to_stop(draft.spec, trials).items():
        trial, event = _pause_or_stop(draft, draft.trials[number], stop)
        draft.put(trial, event)
    for number, prediction in predicted(draft.spec, trials).items():
        if draft.trials[number].state is TrialState.SUCCEEDED:
            draft.trials[number] = replace(draft.trials[number], final=prediction)


def _pause_or_stop(
    draft: _Study, trial: TrialRecord, stop: EarlyStop
) -> tuple[TrialRecord, StudyEvent]:
    why, data = f"{stop.reason.rstrip('.')}.", {"trial": trial.number, **asdict(stop)}
    if pauses(draft.spec) and draft.snapshots[trial.number].can_pause:
        paused = replace(trial, state=TrialState.PAUSED, paused_at=math.ceil(stop.at))
        message = f"Trial {trial.number} is paused. {why}"
        return paused, StudyEvent(TRIAL_PAUSED, message, data)
    stopping = replace(trial, state=TrialState.STOPPING, stopped_early=True)
    message = f"Trial {trial.number} is stopped early. {why}"
    return stopping, StudyEvent(TRIAL_STOPPED_EARLY, message, data)


def _resume(draft: _Study, *, has_news: bool) -> None:
    """Resume paused trials that have become the best of their rungs, as far as places are free.

    Without news no other trial can have become one.
    """
    if draft.places and not has_news:
        return
    for promotion in promotions(draft.spec, tuple(draft.trials.values())):
        trial = draft.trials[promotion.number]
        if draft.runs(trial) or draft.places < draft.spec.trial_count_parallel:
            message = f"Trial {trial.number} is resumed. {promotion.reason}."
            event = StudyEvent(TRIAL_RESUMED, message, {"trial": trial.number})
            draft.put(replace(trial, state=TrialState.ACTIVE), event)


def _result_so_far(draft: _Study, trial: TrialRecord) -> TrialRecord:
    """Return a paused trial as if it had been stopped, so that the search learns from it."""
    if trial.state is not TrialState.PAUSED:
        return trial
    snapshot = draft.snapshots[trial.number]
    result = final(draft.spec, trial.measurements, snapshot.reports, snapshot.search_note)
    if isinstance(result, str):
        return trial
    return replace(trial, state=TrialState.SUCCEEDED, final=result, stopped_early=True)


def _new_trials(draft: _Study, context: StudyContext) -> tuple[tuple[TrialRecord, ...], bool]:
    study, trial_count = draft.spec, len(draft.trials)
    free = study.trial_count_parallel - draft.places
    new_count = min(free, most_trials(study, began=context.began, now=context.now) - trial_count)
    if new_count < 1:
        return (), False
    trials = tuple(_result_so_far(draft, trial) for trial in draft.trials.values())
    suggested = suggest(
        study,
        trials,
        new_count,
        context.seed,
        prior=context.prior,
        first_points=context.first_points,
    )
    numbers = _free_numbers((*context.prior, *trials))
    new = tuple(TrialRecord(number=next(numbers), values=values) for values in suggested.values)
    draft.events += _list_created(study, new, context, is_begun=bool(trials))
    return new, suggested.exhausted


def _list_created(
    study: StudySpec, new: Sequence[TrialRecord], context: StudyContext, *, is_begun: bool
) -> Iterator[StudyEvent]:
    space, points = space_of(study), context.first_points
    for index, trial in enumerate(new):
        is_first = index == 0 and not is_begun
        origin = origin_of(space, trial.values, points, is_first=is_first)
        message = trial_created(trial, origin, position_of(trial.values, points))
        yield StudyEvent(TRIAL_CREATED, message, {"trial": trial.number, "origin": origin.value})


def _free_numbers(trials: Sequence[TrialRecord]) -> Iterator[int]:
    number = max((trial.number for trial in trials), default=0)
    while True:
        number += 1
        yield number


def trial_created(
    trial: TrialRecord, origin: TrialOrigin = TrialOrigin.SEARCH, position: int | None = None
) -> str:
    """Describe a new trial: its number, its values, and why it has them.

    ``position`` is the number of its point among the first points.
    """
    values = ", ".join(f"{name}={text_of(value)}" for name, value in trial.values)
    begins = f"begins with {values}" if values else "begins"
    reason = {
        TrialOrigin.SEARCH: "",
        TrialOrigin.FIRST_POINT: f", as enqueued (point {position})",
        TrialOrigin.DEFAULTS: ", the default values",
    }[origin]
    return f"Trial {trial.number} {begins}{reason}."


def trial_ended(study: StudySpec, trial: TrialRecord, trials: Sequence[TrialRecord]) -> str:
    """Describe the end of a trial; ``trials`` are the study's earlier trials."""
    if trial.state is not TrialState.SUCCEEDED or trial.final is None:
        return f"Trial {trial.number} is infeasible: {trial.infeasible_reason}"
    values = ", ".join(f"{name} {value:.6g}" for name, value in trial.final.metrics)
    outcome = "was stopped early" if trial.stopped_early else "succeeded"
    text = f"Trial {trial.number} {outcome} with {values} at step {trial.final.step}"
    return f"{text}{_rank(study, trial, trials)}."


def _rank(study: StudySpec, trial: TrialRecord, trials: Sequence[TrialRecord]) -> str:
    if len(objectives(study)) != 1:
        return ""
    other_trials = [other for other in trials if other.number != trial.number]
    leader = best(study, [*other_trials, trial])
    if leader is None:
        return ""
    return ", the best so far" if leader.number == trial.number else f"; best is {leader.number}"
