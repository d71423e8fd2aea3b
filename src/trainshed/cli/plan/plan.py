"""``trainshed plan``: predicts throughput, time and cost of a job on several clusters.

Exit codes: 0 with a plan, 2 if the input cannot be read, 3 if the planner refuses to predict.
"""

import argparse
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainshed.cli import flags
from trainshed.cli.check.clusters import rulebook_of
from trainshed.cli.failures import print_error
from trainshed.cli.terminal import out, out_json
from trainshed.planning.plan_request import PlanRequest

if TYPE_CHECKING:
    from trainshed.planning.job_plan import JobPlan
    from trainshed.planning.scaling.prediction import NoPrediction
    from trainshed.workbench.plan_job import PlanAnswer

EXIT_REFUSED: Final = 3

EXAMPLE: Final = """\
  trainshed plan job.yaml --calibration calibration.toml
  trainshed plan job.yaml --calibration calibration.toml --what-if gpus=8,16,32 \\
      --target samples=117000000 --deadline 12h --budget 500
  trainshed plan --calibration calibration.toml --what-if hosts=1,2,4 --format csv
  trainshed plan job.yaml --calibration calibration.toml --png plan.png --html plan.html"""


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
    flags.add_fields(parser, PlanRequest)
    add = flags.adder(parser.add_argument_group("output"))
    add("--format", "default: table", choices=("table", "json", "csv"), default="table")
    add("--png FILE", "Write a picture: throughput, and cost against time", type=Path)
    add("--html FILE", "Write the whole plan as a page that needs no network", type=Path)
    flags.add_catalog_flags(parser)
    parser.check = _check
    return parser


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    faults = chain(flags.to_dataclass(PlanRequest, args).faults(), _check_files(args))
    if fault := next(faults, None):
        parser.error(fault)


def _check_files(args: argparse.Namespace) -> Iterator[str]:
    if args.trainer and not args.trainer.exists():
        yield f"--trainer must be a file or folder that exists, got {args.trainer}"
    for flag, path in (("--png", args.png), ("--html", args.html)):
        if path and (not path.parent.is_dir() or (path.exists() and not path.is_file())):
            yield f"{flag} must be a file in a folder that exists, got {path}"


def run(request: flags.Request) -> int:
    """Print the plan, and write its picture and page.  Raises UsageFault, Fault."""
    from trainshed.cli.plan.plan_tables import refused_json
    from trainshed.workbench.plan_inputs import NotPlannable
    from trainshed.workbench.plan_job import plan_job

    args = request.args
    wishes = flags.to_dataclass(PlanRequest, args)
    try:
        answer = plan_job(wishes, rulebook_of(args))
    except NotPlannable as refusal:
        if args.format == "json":
            out_json(refused_json(refusal.refused))
        return _refuse(refusal.refused, wishes)
    if not answer.plan.refused:
        _write_files(answer, args.png, args.html)
    _print(answer, args.format)
    return _refuse(answer.plan.refused, wishes) if answer.plan.refused else 0


def _print(answer: "PlanAnswer", form: str) -> None:
    from trainshed.cli.plan.plan_tables import as_csv, as_json, table_text
    from trainshed.planning.plan_words import remarks

    plan = answer.plan
    if form == "json":
        out_json(as_json(plan, answer.calibrations, answer.notes))
    elif form == "csv":
        out(as_csv(plan).rstrip("\n"))
    else:
        parts = [*_top_lines(plan), "", table_text(plan), ""]
        parts += map(_sentence, answer.notes)
        out("\n".join([*parts, *remarks(plan)]))


def _top_lines(plan: "JobPlan") -> Iterator[str]:
    from trainshed.planning.cluster_facts import cluster_facts
    from trainshed.planning.plan_words import head, recommendations

    yield head(plan)
    yield from recommendations(plan)
    yield from cluster_facts(plan)


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _refuse(refused: "NoPrediction", request: PlanRequest) -> int:
    """Print the next command and why there is no plan; return the exit code."""
    from trainshed.planning.next_command import next_command

    reason = f"{refused.field}: {refused.message} (accepted: {refused.accepted})"
    command = next_command(refused, request)
    print_error(f"no plan; run: {command}\n  {reason}" if command else reason)
    return EXIT_REFUSED


def _write_files(answer: "PlanAnswer", png: Path | None, html: Path | None) -> None:
    if not (png or html):
        return
    from trainshed.cli.plan.plan_tables import cells_of
    from trainshed.workbench.plan_report import write_page, write_picture

    plan = answer.plan
    if png:
        write_picture(png, plan, answer.calibrations)
    if html:
        words = [*_top_lines(plan), *map(_sentence, answer.notes)]
        write_page(html, plan, answer.calibrations, words, cells_of(plan))
