"""The promises that studies, their trials and the trials' jobs must keep among themselves.

A trial that is over may have lost its job: jobs are forgotten by their own age.
"""

from collections.abc import Iterator
from typing import Final

from trainshed.store.audit import AuditedTrial
from trainshed.workbench.doctor.snapshot import Check, Finding, Part, Snapshot, check

_REPORT: Final = "this should not happen: please report it with the output of trainshed jobs events"
_CANCEL: Final = "cancel the trial's job, and report it"


@check("trials-have-jobs", "Every trial under way has its study and its job.", Part.ROWS)
def trials_have_jobs(seen: Snapshot) -> Iterator[Finding]:
    """They are one write, and neither is forgotten while the other goes on."""
    rows = seen.rows
    for trial in rows.trials:
        if trial.study_uid not in rows.jobs:
            yield _finding(trial, f"trial {trial.number} belongs to no study", _REPORT)
        elif not trial.state.is_final and trial.job_uid not in rows.jobs:
            study = rows.jobs[trial.study_uid]
            yield _finding(trial, f"{study.label}: trial {trial.number} has no job", _REPORT)


@check("over-ends-its-trials", "A study that is over has no trial under way.", Part.ROWS)
def over_ends_its_trials(seen: Snapshot) -> Iterator[Finding]:
    """Nobody would stop it, nor count it."""
    rows = seen.rows
    for trial in rows.trials:
        study = rows.jobs.get(trial.study_uid)
        if study is None or not study.is_over:
            continue
        if not trial.state.is_final:
            text = f"{study.label} is over, and its trial {trial.number} is not"
            yield _finding(trial, text, _REPORT)
        elif (job := rows.jobs.get(trial.job_uid)) and not job.is_over:
            text = f"{study.label} is over, and {job.label}, the job of its trial, is not"
            yield _finding(trial, text, _CANCEL)


def _finding(trial: AuditedTrial, text: str, advice: str) -> Finding:
    return Finding(subject=f"{trial.study_uid}/{trial.number}", text=text, advice=advice)


CHECKS: Final[tuple[Check, ...]] = (trials_have_jobs, over_ends_its_trials)
