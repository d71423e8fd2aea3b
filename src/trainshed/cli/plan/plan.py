"""``trainshed plan``: predicts throughput, time and cost of a job on several clusters.

Exit codes: 0 with a plan, 2 if the input cannot be read, 3 if the planner refuses to predict.
"""

import argparse
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainshed.cli import flags
from trainshed.cli.check.clusters import rulebook_of
from trainshed.cli.failures import print_error
from trainshed.cli.terminal import out, out_json
from trainshed.model.durations import FORM, seconds_of

if TYPE_CHECKING:
    from trainshed.planning.scaling.prediction import NoPrediction
    from trainshed.workbench.plan_job import PlanAnswer, PlanRequest

EXIT_REFUSED: Final = 3

EXAMPLE: Final = """\
  trainshed plan job.yaml --calibration calibration.toml
  trainshed plan job.yaml --calibration calibration.toml --what-if gpus=8,16,32 \\
      --target samples=117000000 --deadline 12h --budget 500
  trainshed plan --calibration calibration.toml --what-if hosts=1,2,4 --format csv
  trainshed plan job.yaml --calibration calibration.toml --png plan.png --html plan.html"""

COUNTS: Final = ("gpus", "hosts")
TARGETS: Final = ("samples", "epochs", "steps")
#: The largest --target, in samples, epochs or steps.
_TARGET_MAX: Final = 1e18
#: The number of finished runs that determine the critical batch.
_RUNS: Final = 2
_MODEL_PARALLEL: Final = "model-parallel"


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Predicts how a job scales, how long it takes and what it costs, on the cluster "
        "of its file and on others, from short measured runs (trainshed plan calibrate). Exit "
        "code: 0 with a plan, 2 if the command line or a file cannot be read, 3 if no plan is "
        "possible.",
        example=EXAMPLE,
        usage=f"{prog} [FILE] [flags]",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="Job file, either dialect")
    add = flags.adder(parser)
    add(
        "--calibration FILE",
        "File that trainshed plan calibrate wrote; repeatable, one for each machine type",
        dest="calibrations",
        type=Path,
        action="append",
        default=[],
    )
    add(
        "--trainer PATH",
        "The trainer's script or package; calibrations of another trainer are refused",
        type=Path,
    )
    add(
        "--measured TABLE",
        "Your own measurements: a TOML file with [[series]] of points with accelerators, "
        "hosts and samples/s",
        type=Path,
    )
    add("--series ID", "Id of the series in TABLE, if it has several")
    _add_what_ifs(parser)
    _add_work(parser)
    _add_money(parser)
    _add_output(parser)
    flags.add_catalog_flags(parser)
    parser.check = _check
    return parser


def _add_what_ifs(parser: argparse.ArgumentParser) -> None:
    add = flags.adder(parser.add_argument_group("other clusters"))
    add(
        "--what-if gpus=N,N,... | hosts=N,N,...",
        "Numbers of accelerators or hosts to plan for; default: 1, 2, 4 ... up to twice the job's",
        type=_counts,
        action="append",
        default=[],
    )
    add("--machine-types TYPE,TYPE,...", "Other machine types to plan for", type=_names, default=())
    add(
        "--reducers auto|N",
        "Number of reducers; default: auto, the numbers that change the throughput",
        type=_reducers,
    )
    add(
        "--parameter-servers N",
        "Number of parameter servers; default: as in the file",
        dest="servers",
        type=flags.whole_number(0),
    )
    add(
        "--batch",
        "Keep the batch of each accelerator (default), or the batch of the whole job",
        choices=("keep-local", "keep-global"),
        default="keep-local",
    )
    add(
        "--largest-batch N",
        "Most samples of a step that fit into the memory of an accelerator",
        type=flags.above_zero,
        default=math.inf,
    )
    add(
        "--model-parallel N",
        "Accelerators that share one copy of the model, as measured; default: 1",
        type=flags.whole_number(1),
        default=1,
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    add = flags.adder(parser.add_argument_group("how long the job trains"))
    add(
        "--target samples=N | epochs=N | steps=N",
        "Length of the training; default: the time of 1,000 steps is printed",
        type=_target,
    )
    add(
        "--epoch-samples N",
        "Samples in an epoch, for --target epochs=N",
        type=flags.above_zero,
        default=0.0,
    )
    add(
        "--critical-batch B",
        "Batch of the whole job at which the same quality needs twice the samples",
        type=flags.above_zero,
        default=0.0,
    )
    add(
        "--finished BATCH=SAMPLES",
        "Batch and samples of a finished run of the whole job; two runs to the same quality "
        "determine the critical batch",
        type=_finished,
        action="append",
        default=[],
    )
    add(
        "--deadline TIME",
        "Longest time that the job may take, such as 6h or 1h30m",
        type=_time,
        default=math.inf,
    )


def _add_money(parser: argparse.ArgumentParser) -> None:
    add = flags.adder(parser.add_argument_group("cost"))
    add("--budget AMOUNT", "Highest cost of the job", type=flags.above_zero, default=math.inf)
    add("--region REGION", "Region for prices")
    add(
        "--prices FILE",
        "Your own prices: a TOML file with currency, date, and a [[machine]] with name and "
        "per_hour, or with watts, per_kwh, bought_for, years and use",
        type=Path,
    )
    add(
        "--spot RATE",
        "Use spot prices; RATE: interruptions of a machine per hour, such as 0.05",
        type=flags.above_zero,
    )
    add(
        "--checkpoint-every TIME",
        "Time between checkpoints, for --spot: an interruption loses half of it",
        type=_time,
    )
    add(
        "--restart TIME",
        "Time from an interruption to the next step; default: 5m",
        type=_time,
        default=300.0,
    )
    add(
        "--worth SHARE",
        "Gain in throughput that doubling the price must bring; default: 0.5",
        type=flags.above_zero,
        default=0.5,
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = flags.adder(parser.add_argument_group("output"))
    add("--format", "default: table", choices=("table", "json", "csv"), default="table")
    add("--png FILE", "Write a picture: throughput, and cost against time", type=Path)
    add("--html FILE", "Write the whole plan as a page that needs no network", type=Path)


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    if fault := next(chain(_check_inputs(args), _check_work(args), _check_files(args)), None):
        parser.error(fault)


def _check_inputs(args: argparse.Namespace) -> Iterator[str]:
    if not (args.file or args.calibrations or args.measured):
        yield "there is nothing to plan: give a FILE, --calibration FILE or --measured TABLE"
    if args.trainer and not args.trainer.exists():
        yield f"--trainer must be a file or folder that exists, got {args.trainer}"
    if args.series and not args.measured:
        yield "--series needs --measured TABLE"


def _check_work(args: argparse.Namespace) -> Iterator[str]:
    if args.target and args.target[0] == "epochs" and not args.epoch_samples:
        yield "--target epochs=N needs --epoch-samples N, the samples of one epoch"
    if args.finished and args.critical_batch:
        yield "--critical-batch does not go with --finished; give one of them"
    if len(args.finished) not in {0, _RUNS}:
        yield f"--finished must be given 0 or {_RUNS} times, got {len(args.finished)}"
    if args.spot and not args.checkpoint_every:
        yield "--spot needs --checkpoint-every TIME, the time between the job's checkpoints"
    if args.checkpoint_every and not args.spot:
        yield "--checkpoint-every needs --spot RATE"


def _check_files(args: argparse.Namespace) -> Iterator[str]:
    for flag, path in (("--png", args.png), ("--html", args.html)):
        if path and (not path.parent.is_dir() or (path.exists() and not path.is_file())):
            yield f"{flag} must be a file in a folder that exists, got {path}"


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if not names:
        raise argparse.ArgumentTypeError(
            f"must be machine types, separated by commas, got {text!r}"
        )
    return names


def _counts(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, numbers = text.partition("=")
    if name == _MODEL_PARALLEL:
        return name, (flags.whole_number(1)(numbers),)
    if name not in COUNTS or not numbers:
        raise argparse.ArgumentTypeError(f"must be like gpus=1,2,4 or hosts=1,2,4, got {text!r}")
    return name, tuple(flags.whole_number(1)(number) for number in numbers.split(","))


def _target(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if name not in TARGETS or not value:
        raise argparse.ArgumentTypeError(f"must be samples=N, epochs=N or steps=N, got {text!r}")
    amount = flags.above_zero(value)
    if amount > _TARGET_MAX:
        raise argparse.ArgumentTypeError(f"must be at most {_TARGET_MAX:g} {name}, got {text!r}")
    return name, amount


def _finished(text: str) -> tuple[float, float]:
    batch, _, samples = text.partition("=")
    if not batch or not samples:
        raise argparse.ArgumentTypeError(f"must be BATCH=SAMPLES, such as 1024=5e7, got {text!r}")
    return flags.above_zero(batch), flags.above_zero(samples)


def _reducers(text: str) -> int | None:
    return None if text == "auto" else flags.whole_number(0)(text)


def _time(text: str) -> float:
    try:
        seconds = seconds_of(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"must be {FORM}, above 0, got {text!r}")
    return seconds


def run(request: flags.Request) -> int:
    """Print the plan, and write its picture and page.  Raises UsageFault, Fault."""
    from trainshed.cli.plan.plan_tables import refused_json
    from trainshed.workbench.plan_inputs import NotPlannable
    from trainshed.workbench.plan_job import plan_job

    args = request.args
    try:
        answer = plan_job(_request_of(args))
    except NotPlannable as refusal:
        if args.format == "json":
            out_json(refused_json(refusal.refused))
        return _refuse(refusal.refused)
    if not answer.plan.refused:
        _write_files(answer, args.png, args.html)
    _print(answer, args.format)
    return _refuse(answer.plan.refused) if answer.plan.refused else 0


def _request_of(args: argparse.Namespace) -> "PlanRequest":
    from trainshed.planning.prices import Interruptions
    from trainshed.planning.what_ifs import BatchRule, PlanLimits
    from trainshed.workbench.plan_job import PlanRequest

    counts: dict[str, tuple[int, ...]] = {}
    for name, numbers in args.what_if:
        counts[name] = (*counts.get(name, ()), *numbers)
    interruptions = None
    if args.spot:
        interruptions = Interruptions(
            per_machine_hour=args.spot,
            checkpoint_every_s=args.checkpoint_every,
            restart_s=args.restart,
        )
    return flags.to_dataclass(
        PlanRequest,
        args,
        rulebook=rulebook_of(args),
        counts=counts,
        batch=BatchRule(args.batch),
        interruptions=interruptions,
        limits=PlanLimits(deadline_s=args.deadline, budget=args.budget),
    )


def _print(answer: "PlanAnswer", form: str) -> None:
    from trainshed.cli.plan.plan_tables import as_csv, as_json, table_text
    from trainshed.planning.plan_words import head, recommendations, remarks

    plan = answer.plan
    if form == "json":
        out_json(as_json(plan, answer.calibrations, answer.notes))
    elif form == "csv":
        out(as_csv(plan).rstrip("\n"))
    else:
        parts = [head(plan), *recommendations(plan), "", table_text(plan), ""]
        parts += map(_sentence, answer.notes)
        out("\n".join([*parts, *remarks(plan)]))


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _refuse(refused: "NoPrediction") -> int:
    """Print why there is no plan; return the exit code."""
    print_error(f"{refused.field}: {refused.message} (accepted: {refused.accepted})")
    return EXIT_REFUSED


def _write_files(answer: "PlanAnswer", png: Path | None, html: Path | None) -> None:
    if not (png or html):
        return
    from trainshed.cli.plan.plan_tables import HEADERS, rows_of
    from trainshed.planning.plan_words import head, recommendations
    from trainshed.workbench.plan_report import write_page, write_picture

    plan = answer.plan
    if png:
        write_picture(png, plan, answer.calibrations)
    if html:
        words = [head(plan), *recommendations(plan), *map(_sentence, answer.notes)]
        write_page(html, plan, answer.calibrations, words, (HEADERS, rows_of(plan)))
