"""What is new in a study since the last look, a line each: for a log, and for a terminal's past."""

from collections.abc import Iterator

from trainshed.cli.log_lines import in_one_line
from trainshed.client.collections import FINAL_STATES
from trainshed.model.trials import TrialRecord, TrialState
from trainshed.workbench.study_view import StudyView, counts, measured, parameters_text


def changes(before: StudyView | None, now: StudyView) -> Iterator[str]:
    """The study's state, each trial that began or ended, and each that became the best.

    A study's end is told behind its last trials'.
    """
    is_new = before is None or before.state != now.state
    state = [in_one_line(f"{now.title}: {now.state}; {counts(now)}")] if is_new else []
    is_over = now.state in FINAL_STATES
    yield from () if is_over else state
    yield from _of_trials(before, now)
    if now.error and (before is None or not before.error):
        yield in_one_line(f"error: {now.error}")
    yield from state if is_over else ()


def _of_trials(before: StudyView | None, now: StudyView) -> Iterator[str]:
    old = {trial.number: trial.state for trial in before.trials} if before else {}
    led = {trial.number for trial in before.leaders} if before else set()
    leads = {trial.number for trial in now.leaders} - led
    for trial in now.trials:
        if old.get(trial.number) is not trial.state:
            leading = _leading(now) if trial.number in leads else ""
            yield in_one_line(f"trial {trial.number}: {trial.state.value}{_about(trial)}{leading}")


def _about(trial: TrialRecord) -> str:
    """Its values until it has ended, then what came of it."""
    if not trial.state.is_final:
        return f": {parameters_text(trial)}" if trial.values else ""
    early = ", stopped early" if trial.stopped_early else ""
    if trial.state is TrialState.INFEASIBLE:
        return f"{early}: {trial.infeasible_reason}" if trial.infeasible_reason else early
    return f"{early}: {measured(trial)}"


def _leading(view: StudyView) -> str:
    return ", in the Pareto front" if len(view.objectives) > 1 else ", the best so far"
