"""The command line of ``trainshed plan calibrate-jobs``."""

import argparse
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.flags import COUNT_MAX

EXAMPLE = """\
  {prog} job.yaml
  {prog} job.yaml --hosts 1,2 --seconds 90 --out cluster.toml"""


def plan_calibrate_jobs(prog: str) -> flags.Parser:
    """The command line of ``trainshed plan calibrate-jobs``."""
    parser = flags.Parser(
        prog,
        summary="Measures a trainer where it will run, on whatever engine a server has: for each "
        "count of hosts a short job of the file, which is cancelled when it has trained for "
        "--seconds. Hooks or progress() see its steps. Writes a file that trainshed plan reads.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} FILE [flags]",
    )
    parser.add_argument("file", metavar="FILE", help="Job file, either dialect")
    parser.add_argument(
        "--hosts",
        metavar="N,N",
        type=_counts,
        default=(1,),
        help="Hosts of each job; default: 1. Of 2 the plan learns how the stack uses the network",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=flags.above_zero,
        default=60.0,
        help="How long a job may run, its start included; default: 60",
    )
    parser.add_argument(
        "--start-seconds",
        metavar="S",
        type=flags.above_zero,
        default=600.0,
        help="And how long it may wait before it runs; default: 600",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("calibration.toml"), help="File to write"
    )
    flags.add_client_flags(parser, located=True)
    return parser


def _counts(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 1 <= int(word) <= COUNT_MAX for word in words):
        raise argparse.ArgumentTypeError(f"counts from 1 to {COUNT_MAX}, with commas, not {text}")
    return tuple(dict.fromkeys(int(word) for word in words))
