"""The command line of ``trainshed nodes``."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags

EXAMPLE = """\
  trainshed nodes
  trainshed nodes list --format json"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    parser = flags.Parser(
        prog,
        summary="Lists the machines of the fleet as they were last seen. Administrators take one "
        "out of service with nodes drain and nodes maintain, and back with nodes resume.",
        example=EXAMPLE,
        usage=f"{prog} [list] [flags]",
    )
    parser.add_argument("action", nargs="?", choices=("list",), metavar="list", help="the default")
    add_client_flags(parser)
    return flags.Request(parser.read(argv))
