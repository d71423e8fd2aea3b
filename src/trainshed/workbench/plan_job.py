"""Plans a job: reads the job file, the calibration and the prices, and calls the planner."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainshed.model.faults import UsageFault
from trainshed.planning.host_kinds import CPU
from trainshed.planning.job_plan import ONLY_RATIOS, JobPlan, plan_of
from trainshed.planning.layouts import HostType
from trainshed.planning.plan_request import BatchRule, PlanRequest
from trainshed.planning.planned_jobs import PlannedJob
from trainshed.planning.prices import PriceList, own_prices
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.targets import ToTarget, recipe_of
from trainshed.planning.stack import other_module
from trainshed.planning.what_ifs import TrainingWork
from trainshed.service.jobs.judging import Rulebook
from trainshed.workbench.documents import read_text
from trainshed.workbench.plan_inputs import (
    NotPlannable,
    calibrate_from_published,
    check_hosts,
    check_trainer,
    check_trainings,
    job_of,
    read_calibration,
    read_measured,
)
from trainshed.workbench.plan_job_file import (
    JobFile,
    host_types_of,
    newest_catalog,
    read_job,
)

_STEPS: Final = 1000
#: For asynchronous training, in which updates are late (docs/sources/planner.md 3).
_NO_RECIPE: Final = NoPrediction(
    field="critical_batch",
    message="workers do not wait for each other: how many samples such a training needs is unknown",
    accepted="a --target without --critical-batch and --finished",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer:
    """A plan, its inputs, and warnings about it."""

    plan: JobPlan
    calibrations: Sequence[Calibration]
    notes: Sequence[str]


def plan_job(request: PlanRequest, rulebook: Rulebook) -> PlanAnswer:
    """Make the plan.  Raises UsageFault, Fault, and NotPlannable if no plan is possible."""
    calibrations = [read_calibration(path) for path in request.calibrations]
    if request.trainer:
        check_trainer(calibrations, request.trainer)
    job_file = read_job(request.file, rulebook, request.region) if request.file else None
    warnings = _warn_of_module(calibrations, job_file)
    notes: list[str] = []
    if request.measured:
        of_job = job_file.job.host if job_file else None
        curve, offending = read_measured(request.measured, request.series, of_job)
        calibrations.append(curve)
        notes += offending
    check_trainings(calibrations, job_file.framework if job_file else "")
    host = calibrations[0].host if calibrations else HostKind(accelerator=CPU)
    job = job_file.job if job_file else job_of(host)
    notes += check_hosts(calibrations, job)
    others = _list_host_types(request, rulebook, job, job_file)
    if not (job_file or calibrations):
        job, others = replace(job, host_type=others[0]), others[1:]
    job = replace(job, others=(*job.others, *others))
    if request.is_unmeasured:
        calibrations += calibrate_from_published(request, job)
    work = _work(request, job, calibrations)
    region = job_file.region if job_file else request.region
    plan = plan_of(job, request, calibrations, work, _price_list(request, region))
    notes += _warn_of_target(request, plan)
    return PlanAnswer(plan=replace(plan, warnings=warnings), calibrations=calibrations, notes=notes)


def _warn_of_module(
    calibrations: Sequence[Calibration], job_file: JobFile | None
) -> tuple[str, ...]:
    """Return warnings of calibrations of another module than the job's."""
    reasons = [
        other_module(calibration, job_file.module) for calibration in calibrations if job_file
    ]
    return tuple(f"check the calibration: {why}" for why in dict.fromkeys(filter(None, reasons)))


def _list_host_types(
    request: PlanRequest, rulebook: Rulebook, job: PlannedJob, job_file: JobFile | None
) -> tuple[HostType, ...]:
    """Return hosts of other machine types.  Raises Fault."""
    if not request.machine_types and (job_file or not request.region):
        return ()
    catalog = job_file.catalog if job_file else newest_catalog(rulebook, request.region)
    return host_types_of(request.machine_types, job, catalog)


def _work(
    request: PlanRequest, job: PlannedJob, calibrations: Sequence[Calibration]
) -> TrainingWork:
    """Return the amount of training.  Raises UsageFault, NotPlannable."""
    if (request.critical_batch or request.finished) and any(
        calibration.training.asynchronous for calibration in calibrations
    ):
        raise NotPlannable(_NO_RECIPE)
    batch = job.global_batch(calibrations[0]) if calibrations else 1.0
    kind, count = request.target or ("steps", _STEPS)
    samples_per_unit = {"samples": 1.0, "epochs": request.epoch_samples, "steps": batch}[kind]
    words = f"for {count:,.0f} steps of {batch:,.12g} samples"
    if kind != "steps":
        amount = f"{count:,.0f}" if float(count).is_integer() else f"{count:,.12g}"
        words = f"for {amount} {kind}"
    return TrainingWork(
        samples=count * samples_per_unit,
        global_batch=batch,
        words=words,
        critical_batch=_critical_batch(request),
    )


def _critical_batch(request: PlanRequest) -> float:
    """Return the given critical batch, or that of the finished runs; 0 if unknown.

    Raises UsageFault.
    """
    if not request.finished:
        return request.critical_batch
    runs = [ToTarget(batch=batch, amount=samples) for batch, samples in request.finished]
    try:
        return recipe_of(runs).critical_batch
    except ValueError as error:
        raise UsageFault(f"--finished: {error}") from None


def _price_list(request: PlanRequest, region: str | None) -> PriceList:
    file = request.prices
    own = own_prices(read_text(file), str(file)) if file else None
    return PriceList(own=own, region=region, spot=bool(request.spot))


def _warn_of_target(request: PlanRequest, plan: JobPlan) -> Iterator[str]:
    """Yield why the time to a target, or to a quality with a larger batch, is not given."""
    if request.target and any(option.rate_factor == math.inf for option in plan.options):
        yield f"no time to the target is given: {ONLY_RATIOS}"
    elif request.batch is BatchRule.KEEP_LOCAL and not plan.work.critical_batch and request.target:
        yield (
            "the batch grows with the accelerators: whether the model then needs more samples is "
            "not known (--critical-batch or --finished), and no time to a quality is given"
        )
