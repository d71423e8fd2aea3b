"""The command line of ``trainshed gpu-check``."""

from collections.abc import Sequence
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.run_options import add_run_flags
from trainshed.model.faults import UsageFault

EXAMPLE = """\
  trainshed gpu-check --module-name steps --package-path examples/gpu-check -- --steps 20"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    words, user_args = flags.split_user_args(argv)
    flags.refuse_own_flags(user_args, ("module-name", "package-path"))
    if any(word.split("=")[0] == "--device" for word in user_args or ()):
        raise UsageFault("--device is what gpu-check itself gives the trainer; leave it out")
    return flags.Request(_parser(prog).read(words), user_args)


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Runs a trainer's few steps with --device cpu and, where there is a GPU, with "
        "--device cuda. The trainer ends with one line of JSON that has seconds.",
        example=EXAMPLE,
        usage=f"{prog} --module-name MODULE [flags] [-- USER_ARGS ...]",
    )
    parser.add_argument("--module-name", metavar="MODULE", required=True, help="Module to run")
    parser.add_argument("--package-path", metavar="DIR", type=Path, help="Package of the module")
    flags.add_format(parser)
    add_run_flags(parser, dry_run=False)
    flags.add_gcloud_wide(parser)
    return parser
