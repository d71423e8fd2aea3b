"""The planner's remarks about a run on this machine, before the run starts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trainshed.catalog.open import catalog_for
from trainshed.model.faults import UsageFault
from trainshed.model.job import JobSpec
from trainshed.planning.measured_hosts import on_host
from trainshed.planning.planned_jobs import PlannedJob, planned_job, trainers_of
from trainshed.planning.prices import PriceList
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.submit_note import submit_note
from trainshed.workbench.plan_inputs import (
    NotPlannable,
    check_hosts,
    check_trainer,
    job_of,
    read_calibration,
)


def plan_remarks(file: Path, package_path: Path | None, spec: JobSpec) -> Iterator[str]:
    """Yield one note, or none.  Raises UsageFault if ``--calibration`` names no calibration."""
    try:
        calibration = read_calibration(file)
    except NotPlannable as refusal:
        raise UsageFault(f"--calibration: {refusal}") from None
    try:
        if package_path:
            check_trainer([calibration], package_path)
    except NotPlannable as refusal:
        yield f"No plan: {refusal}."
        return
    job = _job(calibration, spec)
    if on_host([calibration], job.host) is None:
        yield f"No plan: {calibration.host.name} was measured, not {job.host.name}."
        return
    prices = PriceList(region=spec.region)
    if note := submit_note(calibration, job, prices, says_unknown=True):
        warnings = (
            f"{warning[0].upper()}{warning[1:]}." for warning in check_hosts([calibration], job)
        )
        yield " ".join([f"Plan: {note.message}", *warnings])


def _job(calibration: Calibration, spec: JobSpec) -> PlannedJob:
    """Put the job on its machines, or on the measured machine if it names none."""
    catalog = catalog_for(spec.dialect, None, (), None)
    job = planned_job(spec, catalog)
    if isinstance(job, PlannedJob):
        return job
    hosts = sum(group.count for group in trainers_of(spec))
    return replace(job_of(calibration.host), hosts=hosts)
