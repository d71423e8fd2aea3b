"""``trainshed plan``: how a job scales, how long it takes, what it costs, which cluster to ask for.

Exit codes: 0 with a plan, 2 for what cannot be read, 3 for a question that has no answer.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trainshed.cli.failures import print_error
from trainshed.cli.flags import Request
from trainshed.cli.plan.plan_tables import (
    HEADERS,
    as_csv,
    as_json,
    refused_json,
    rows_of,
    table_text,
)
from trainshed.cli.terminal import out, out_json
from trainshed.model.faults import UsageFault
from trainshed.planning.clusters_asked import PlannedJob, Question, global_batch
from trainshed.planning.job_plan import JobPlan, PlanWishes, plan_of
from trainshed.planning.plan_words import head, recommendations, remarks
from trainshed.planning.prices import Interruptions, PriceList
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.targets import ToTarget, two_runs
from trainshed.planning.stack import other_module
from trainshed.planning.what_ifs import BatchRule, PlanLimits, TrainingWork
from trainshed.workbench.plan_inputs import (
    NotPlannable,
    check_hosts,
    check_trainer,
    check_trainings,
    job_of,
    read_calibration,
    read_measured,
    read_prices,
)

if TYPE_CHECKING:
    from trainshed.workbench.plan_job_file import JobFile

EXIT_REFUSED: Final = 3
_STEPS: Final = 1000
#: docs/sources/planner.md 3: what a worker adds is as old as the others are slow.
_NO_RECIPE: Final = NoPrediction(
    field="critical_batch",
    message="workers do not wait for each other: how many samples such a training needs is unknown",
    accepted="a --target without --critical-batch and --finished",
)


def run(request: Request) -> int:
    """Print the plan, and write its pictures.  Raises UsageFault, Fault."""
    args = request.args
    try:
        plan, calibrations, notes = _plan(args)
    except NotPlannable as refusal:
        return _refuse(args, refusal.refused)
    if not plan.refused:
        _draw(args, plan, calibrations, notes)
    _print(args, plan, calibrations, notes)
    return _say(plan.refused) if plan.refused else 0


def _plan(args: argparse.Namespace) -> tuple[JobPlan, list[Calibration], list[str]]:
    calibrations = [read_calibration(path) for path in args.calibration]
    if args.trainer:
        check_trainer(calibrations, args.trainer)
    job_file, notes = _job_file(args), list[str]()
    warnings = _warn_of_module(calibrations, job_file)
    if args.measured:
        host = job_file.job.host if job_file else None
        curve, offending = read_measured(args.measured, args.series, host)
        calibrations.append(curve)
        notes += offending
    check_trainings(calibrations, job_file.framework if job_file else "")
    job = job_file.job if job_file else job_of(calibrations[0])
    notes += check_hosts(calibrations, job)
    if (args.critical_batch or args.finished) and any(
        calibration.training.asynchronous for calibration in calibrations
    ):
        raise NotPlannable(_NO_RECIPE)
    work = _work(args, job, calibrations)
    question = _question(args, _kinds(args, job, job_file))
    plan = plan_of(job, question, calibrations, work, _wishes(args, job_file))
    plan = replace(plan, warnings=warnings)
    return plan, calibrations, [*notes, *_warn_of_batch(args, plan)]


def _warn_of_module(
    calibrations: Sequence[Calibration], job_file: "JobFile | None"
) -> tuple[str, ...]:
    """The calibration of another module than the job's may be of another training."""
    reasons = [
        other_module(calibration, job_file.module) for calibration in calibrations if job_file
    ]
    return tuple(f"mind the calibration: {why}" for why in dict.fromkeys(filter(None, reasons)))


def _job_file(args: argparse.Namespace) -> "JobFile | None":
    if not args.file:
        return None
    from trainshed.cli.check.clusters import rulebook_of
    from trainshed.workbench.plan_job_file import read_job

    return read_job(args.file, rulebook_of(args), args.region)


def _kinds(
    args: argparse.Namespace, job: PlannedJob, job_file: "JobFile | None"
) -> dict[HostKind, tuple[int, ...]]:
    """Hosts of other machine types, and how many accelerators each may carry.  Raises Fault."""
    if not args.machine_types and (job_file or not args.region):
        return {}
    from trainshed.cli.check.clusters import rulebook_of
    from trainshed.planning.host_kinds import counts_of
    from trainshed.workbench import plan_job_file

    catalog = job_file.catalog if job_file else plan_job_file.newest_catalog(rulebook_of(args))
    if args.region and not job_file:
        plan_job_file.check_region(args.region, catalog)
    kinds = plan_job_file.kinds_of(args.machine_types, job, catalog)
    return {kind: counts_of(kind, catalog) for kind in kinds}


def _question(args: argparse.Namespace, kinds: dict[HostKind, tuple[int, ...]]) -> Question:
    counts: dict[str, tuple[int, ...]] = {}
    for name, listed in args.what_if:
        counts[name] = (*counts.get(name, ()), *listed)
    return Question(
        accelerators=counts.get("gpus", ()),
        hosts=counts.get("hosts", ()),
        kinds=tuple(kinds),
        fitting=kinds,
        reducers=args.reducers,
        servers=args.parameter_servers,
        batch=BatchRule(args.batch),
        largest_batch=args.largest_batch,
        model_parallel=args.model_parallel,
        model_parallel_asked=next(iter(counts.get("model-parallel", ())), None),
    )


def _work(
    args: argparse.Namespace, job: PlannedJob, calibrations: Sequence[Calibration]
) -> TrainingWork:
    batch = global_batch(job, calibrations[0]) if calibrations else 1.0
    kind, count = args.target or ("steps", _STEPS)
    samples_per_unit = {"samples": 1.0, "epochs": args.epoch_samples or 0.0, "steps": batch}[kind]
    words = f"for {count:,.0f} steps of {batch:,.12g} samples"
    if args.target:
        amount = f"{count:,.0f}" if float(count).is_integer() else f"{count:,.12g}"
        words = f"for {amount} {kind}" if kind != "steps" else words
    return TrainingWork(
        samples=count * samples_per_unit,
        global_batch=batch,
        words=words,
        critical_batch=_critical_batch(args),
    )


def _critical_batch(args: argparse.Namespace) -> float:
    """As it was given, or as two finished runs tell it; 0 where nobody knows.  UsageFault."""
    if not args.finished:
        return float(args.critical_batch)
    first, second = (ToTarget(batch=batch, amount=samples) for batch, samples in args.finished)
    try:
        return two_runs(first, second).critical_batch
    except ValueError as error:
        raise UsageFault(f"--finished: {error}") from None


def _wishes(args: argparse.Namespace, job_file: "JobFile | None") -> PlanWishes:
    region = job_file.region if job_file else args.region
    own = read_prices(args.prices) if args.prices else None
    interruptions = None
    if args.spot:
        interruptions = Interruptions(
            per_machine_hour=args.spot,
            checkpoint_every_s=args.checkpoint_every,
            restart_s=args.restart,
        )
    return PlanWishes(
        worth=args.worth,
        limits=PlanLimits(deadline_s=args.deadline, budget=args.budget),
        prices=PriceList(own=own, region=region, spot=bool(args.spot)),
        interruptions=interruptions,
    )


def _warn_of_batch(args: argparse.Namespace, plan: JobPlan) -> Iterator[str]:
    """What nobody knows of larger batches."""
    if args.batch == "keep-local" and not plan.work.critical_batch and args.target:
        yield (
            "the batch grows with the accelerators: whether the model then needs more samples is "
            "not known (--critical-batch or --finished), and no time to a quality is given"
        )
    calibrations = [
        option.what_if.calibration for option in plan.options if option.what_if.calibration
    ]
    most = max(
        (calibration.training.batch_per_accelerator for calibration in calibrations), default=0.0
    )
    if any(option.what_if.batch_per_accelerator > most for option in plan.options) and (
        args.largest_batch == float("inf")
    ):
        yield "larger batches than were measured may not fit the accelerators' memory"


def _print(
    args: argparse.Namespace,
    plan: JobPlan,
    calibrations: Sequence[Calibration],
    notes: Sequence[str],
) -> None:
    if args.format == "json":
        out_json(as_json(plan, calibrations, notes))
    elif args.format == "csv":
        out(as_csv(plan).rstrip("\n"))
    else:
        parts = [head(plan), *recommendations(plan), "", table_text(plan), ""]
        parts += map(_sentence, notes)
        out("\n".join([*parts, *remarks(plan)]))


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _refuse(args: argparse.Namespace, refused: NoPrediction) -> int:
    """Say why there is no plan."""
    if args.format == "json":
        out_json(refused_json(refused))
    return _say(refused)


def _say(refused: NoPrediction) -> int:
    print_error(f"{refused.field}: {refused.message} (accepted: {refused.accepted})")
    return EXIT_REFUSED


def _draw(
    args: argparse.Namespace,
    plan: JobPlan,
    calibrations: Sequence[Calibration],
    notes: Sequence[str],
) -> None:
    if not (args.png or args.html):
        return
    from trainshed.workbench.plan_report import write_page, write_picture

    if args.png:
        write_picture(args.png, plan, calibrations)
    if args.html:
        words = [head(plan), *recommendations(plan), *map(_sentence, notes)]
        write_page(args.html, plan, calibrations, words, (HEADERS, rows_of(plan)))
