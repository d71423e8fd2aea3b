"""Writes the names of a job beside the log of an attempt, for programs that collect logs.

The lines of a log have no names of their job, and the path has its number alone.
"""

from trainshed.engines.supervise.record.folder import AttemptFolder, write_json
from trainshed.model.attempt import AttemptKey
from trainshed.model.launch_plan import LaunchPlan


def write_job_file(folder: AttemptFolder, key: AttemptKey, plan: LaunchPlan) -> None:
    """Write ``job.json``; a local run has no project, and gets none.  Raises OSError.

    The job of a trial is its study, as in ``CLOUD_ML_JOB_ID``; the lines have the trial's number.
    """
    if plan.owner is None:
        return
    names = {
        "project": plan.owner.project,
        "job": plan.job_id,
        "uid": str(key.uid),
        "attempt": key.attempt,
        "creator": plan.creator,
    }
    write_json(folder.job_file, names)
