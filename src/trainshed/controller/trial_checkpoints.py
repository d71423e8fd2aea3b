"""Finds the trials whose programs can go on from a checkpoint after a pause.

A program of the trainer library reports each complete checkpoint beside its steps.  Other programs
may save checkpoints as well, but the server cannot know whether they are complete.
"""

from collections.abc import Collection

from trainshed.controller.steps import DIALECT_OF_KIND
from trainshed.engines.capabilities import SupportsSteps
from trainshed.engines.several import Engines
from trainshed.launch.names import task_name
from trainshed.model.attempt import AttemptKey
from trainshed.model.job import JobSpec
from trainshed.model.roles import Role
from trainshed.model.trials import TrialState
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.studies import StoredTrial
from trainshed.tuning.asha import pauses


class TrialCheckpoints:
    """The trials of open studies that have a checkpoint; reads the checkpoint of a trial once."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._jobs: dict[int, set[int]] = {}
        """By study the jobs of the trials that have one."""

    def keep(self, uids: Collection[int]) -> None:
        """Forget the trials of all other studies."""
        self._jobs = {uid: jobs for uid, jobs in self._jobs.items() if uid in uids}

    def can_pause(self, record: JobRecord, stored: StoredTrial) -> bool:
        """Return whether the study may pause a trial, because its program can go on later."""
        if stored.trial.state is not TrialState.ACTIVE or not _may_pause(record.job.spec):
            return False
        jobs = self._jobs.setdefault(record.uid, set())
        if stored.trial.paused_at is None and stored.job_uid not in jobs:
            if not self._has_saved(record, stored):
                return False
            jobs.add(stored.job_uid)
        return True

    def _has_saved(self, record: JobRecord, stored: StoredTrial) -> bool:
        task = task_name(DIALECT_OF_KIND[record.kind], Role.PRIMARY, 0)
        attempts = range(stored.job_attempt, 0, -1)
        try:
            return any(self._reports_one(AttemptKey(stored.job_uid, n), task) for n in attempts)
        except OSError:  # its engine is away, or this server does not run it
            return False

    def _reports_one(self, key: AttemptKey, task: str) -> bool:
        engine = self._engines.get_by_attempt(key)
        steps = engine.read_steps(key, task) if isinstance(engine, SupportsSteps) else None
        return steps is not None and steps.checkpoint_at > 0


def _may_pause(spec: JobSpec) -> bool:
    """Whether the trials of a study may be paused: a checkpoint in a working folder is lost."""
    has_folder = bool(spec.job_dir or spec.base_output_dir)
    is_allowed = has_folder and not spec.scheduling.disable_retries
    return is_allowed and spec.study is not None and pauses(spec.study)
