"""The command line of ``trainshed buckets``."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags

EXAMPLE = """\
  trainshed buckets create my-bucket
  trainshed buckets list"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    parser = flags.Parser(
        prog,
        summary="Makes and lists buckets: folders of the server that gs:// names mean.",
        example=EXAMPLE,
        usage=f"{prog} create NAME | list [flags]",
    )
    parser.add_argument("action", choices=("create", "list"), metavar="ACTION")
    parser.add_argument("name", metavar="NAME", nargs="?", help="Name, with or without gs://")
    add_client_flags(parser)
    args = parser.read(argv)
    if (args.action == "create") != bool(args.name):
        parser.error("create takes the NAME of a bucket, and list takes none")
    return flags.Request(args)
