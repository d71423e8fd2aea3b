"""The command line of ``trainshed plan achieved``."""

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
        usage=f"{prog} JOB ... --calibration FILE [flags]",
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
        required=True,
        help="What trainshed plan calibrate wrote for these jobs' trainer and machines",
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
    return parser
