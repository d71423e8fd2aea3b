"""The command line of ``trainshed plan calibrate``."""

import argparse
from pathlib import Path

from trainshed.cli import flags

CALIBRATE_EXAMPLE = """\
  trainshed plan calibrate --module-name trainer.task --package-path trainer -- --epochs 100
  trainshed plan calibrate --script task.py --processes 2 --out here.toml
  trainshed plan calibrate --step-pattern 'step (?P<step>[0-9]+)' --batch 64 -- python task.py"""

STRATEGIES = (
    "allreduce", "allreduce-cpu", "fsdp", "ps-cpu", "ps-gpu", "ps-distributed", "ps-naive",
)  # fmt: skip
#: Those that the planner tells apart, and that its tables have.
PRECISIONS = ("fp32", "tf32", "amp", "amp_fp16", "amp_bf16", "fp16", "bf16", "fp8")
#: Of these, those whose workers may go on without each other.
ASYNCHRONOUS = ("ps-distributed", "ps-naive")


def plan_calibrate(prog: str) -> flags.Parser:
    """The command line of ``trainshed plan calibrate``."""
    parser = flags.Parser(
        prog,
        summary="Measures a trainer on this machine, unchanged, in runs of some seconds each: its "
        "compute (A), its input alone (B), all processes or GPUs of the host (C), and these "
        "without exchange (D). Writes a file that trainshed plan reads.",
        example=CALIBRATE_EXAMPLE,
        usage=f"{prog} [--module-name M | --script FILE | --config FILE] [flags] [-- ARGS ...]",
    )
    parser.own = ("module-name", "package-path")
    parser.check = _check
    program = parser.add_argument_group("program; without one of these, the words after --")
    program.add_argument("--module-name", metavar="MODULE", help="Module to run")
    program.add_argument("--package-path", metavar="DIR", type=Path, help="Package of the module")
    program.add_argument("--script", metavar="FILE", type=Path, help="Python file or shell script")
    program.add_argument("--config", metavar="FILE", help="Job file of AI Platform")
    _add_runs(parser)
    _add_model(parser)
    _add_host(parser)
    flags.add_format(parser)
    flags.add_run_flags(parser, dry_run=False)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)
    parser.add_argument_group("-- ARGS", "The program's arguments, or all of its command.")
    return parser


def _add_runs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("runs")
    count = group.add_mutually_exclusive_group()
    count.add_argument(
        "--processes", metavar="N", type=_count, help="Processes of a host that train on its CPUs"
    )
    count.add_argument("--gpus", metavar="N", type=_count, help="GPUs of a host, one a process")
    group.add_argument("--runs", metavar="A,B,C,D", help="Which to make; default: all that tell")
    group.add_argument(
        "--seconds",
        metavar="S",
        type=flags.above_zero,
        default=15.0,
        help="Longest time of a run's steps",
    )
    group.add_argument(
        "--start-seconds",
        metavar="S",
        type=flags.above_zero,
        default=120.0,
        help="And to its first step",
    )
    group.add_argument(
        "--step-pattern", metavar="REGEX", help="Lines that tell steps, with (?P<step>"
    )
    group.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("calibration.toml"), help="File to write"
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model; hooks find most of it")
    group.add_argument(
        "--batch",
        metavar="N",
        type=flags.above_zero,
        default=0.0,
        help="Samples of a process in a step",
    )
    group.add_argument(
        "--batch-flag",
        metavar="FLAG",
        default="",
        help="The program's own, such as --batch-size: A is made with half of it too",
    )
    group.add_argument(
        "--params", metavar="N", type=flags.above_zero, default=0.0, help="Trained parameters"
    )
    group.add_argument("--precision", choices=PRECISIONS, default="fp32", help="Of its compute")
    group.add_argument("--strategy", choices=STRATEGIES, default="allreduce", help="Of exchange")
    group.add_argument(
        "--asynchronous",
        action="store_true",
        help="Workers do not wait for each other, with parameter servers",
    )
    group.add_argument("--stack", metavar="NAME", default="", help="Framework and version")


def _add_host(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("hosts like this one")
    group.add_argument("--machine-type", metavar="TYPE", default="", help="What they are called")
    group.add_argument(
        "--network-gbps",
        metavar="GBPS",
        type=flags.above_zero,
        default=0.0,
        help="Link between them, nominal",
    )
    group.add_argument(
        "--stream-gbps",
        metavar="GBPS",
        type=flags.above_zero,
        default=0.0,
        help="What a stream over that link gets, as iperf3 says: run E",
    )
    group.add_argument("--network", choices=("tcp", "rdma"), default="tcp", help="How it is used")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    """A stream is slower than the link that carries it, and who exchanges by rings waits."""
    if args.asynchronous and args.strategy not in ASYNCHRONOUS:
        parser.error(f"--asynchronous needs --strategy {' or '.join(ASYNCHRONOUS)}")
    if 0 < args.network_gbps < args.stream_gbps:
        parser.error(
            f"--stream-gbps {args.stream_gbps:g} is more than --network-gbps "
            f"{args.network_gbps:g}: a stream gets no more than the nominal rate of its link"
        )
