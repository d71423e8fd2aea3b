"""The command line of ``trainshed ai-platform jobs update``: gcloud's."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags

EXAMPLE = "  {prog} census_1 --update-labels team=vision,phase=two --remove-labels draft"


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    parser = _parser(prog)
    args = parser.read(argv)
    if not (args.update_labels or args.remove_labels or args.clear_labels):
        parser.error("nothing to update: give --update-labels, --remove-labels or --clear-labels")
    return flags.Request(args)


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Changes the labels of a job.",
        example=EXAMPLE.format(prog=prog),
        usage=f"{prog} JOB [flags]",
    )
    parser.add_argument("job", metavar="JOB", help="Id of the job")
    parser.add_argument("--update-labels", metavar="KEY=VALUE,...", help="Labels to set")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--remove-labels", metavar="KEY,...", help="Labels to take away")
    which.add_argument(
        "--clear-labels", action="store_true", help="Take all away, before any is set"
    )
    add_client_flags(parser)
    return parser
