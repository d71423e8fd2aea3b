"""The command lines of ``trainshed plan achieved`` and ``trainshed plan score``."""

import argparse
from pathlib import Path

from trainshed.cli import flags


def plan_achieved(prog: str) -> flags.Parser:
    """The command line of ``trainshed plan achieved``."""
    parser = flags.Parser(
        prog,
        summary="Says what a calibration predicted of jobs that are over, and what they came to; "
        "of several also how many their intervals have held. Their trainers reported steps: by "
        "progress(step), or by hooks.",
        example=f"  {prog} census_1 --calibration calibration.toml --update",
        usage=f"{prog} JOB ... [flags]",
    )
    parser.add_argument(
        "job",
        metavar="JOB",
        nargs="+",
        help="AI Platform job id, Vertex job number, or full name of either",
    )
    parser.add_argument(
        "--calibration",
        metavar="FILE",
        type=Path,
        help="What trainshed plan calibrate wrote for these jobs' trainer and machines; without "
        "it, what the server had predicted",
    )
    parser.add_argument(
        "--gpus",
        metavar="N",
        type=int,
        help="Accelerators of each job; default: all that its hosts have by the calibration",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="Let the calibration learn from the jobs, the last one named counting most",
    )
    flags.add_client_flags(parser)
    parser.check = _check
    return parser


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    flag = "--update" if args.update else "--gpus" if args.gpus is not None else ""
    if flag and not args.calibration:
        parser.error(f"{flag} needs --calibration FILE: the server's own learns by itself")


def plan_score(prog: str) -> flags.Parser:
    """The command line of ``trainshed plan score``."""
    parser = flags.Parser(
        prog,
        summary="Says how many of a project's jobs took as long as their 80 % intervals said, by "
        "the kind of question, and which did not. A server predicts every job whose trainer and "
        "machines an earlier job has taught it.",
        example=f"  {prog} --project demo",
        usage=f"{prog} [flags]",
    )
    flags.add_client_flags(parser)
    return parser
