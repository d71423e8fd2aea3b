"""What the story of a study says of its trials, in sentences (R19)."""

from collections.abc import Sequence

from trainshed.model.study import StudySpec
from trainshed.model.trials import TrialRecord, TrialState, text_of
from trainshed.tuning.ranking import best, objectives


def began_words(trial: TrialRecord) -> str:
    """What is said of a trial that begins: its number and its values."""
    values = ", ".join(f"{name}={text_of(value)}" for name, value in trial.values)
    return f"Trial {trial.number} begins with {values}." if values else _bare(trial)


def ended_words(study: StudySpec, trial: TrialRecord, known: Sequence[TrialRecord]) -> str:
    """How a trial has ended; ``known`` are the study's trials before."""
    if trial.state is not TrialState.SUCCEEDED or trial.final is None:
        return f"Trial {trial.number} is infeasible: {trial.infeasible_reason}"
    values = ", ".join(f"{name} {value:.6g}" for name, value in trial.final.metrics)
    how = "was stopped early" if trial.stopped_early else "succeeded"
    told = f"Trial {trial.number} {how} with {values} at step {trial.final.step}"
    return f"{told}{_rank(study, trial, known)}."


def _rank(study: StudySpec, trial: TrialRecord, known: Sequence[TrialRecord]) -> str:
    if len(objectives(study)) != 1:
        return ""
    others = [other for other in known if other.number != trial.number]
    leader = best(study, [*others, trial])
    if leader is None:
        return ""
    return ", the best so far" if leader.number == trial.number else f"; best is {leader.number}"


def _bare(trial: TrialRecord) -> str:
    return f"Trial {trial.number} begins."
