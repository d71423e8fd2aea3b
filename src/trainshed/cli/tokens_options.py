"""The command line of ``trainshed tokens``."""

from collections.abc import Sequence
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.server_flags import add_database_flag, add_grant_flags, add_server_flags

EXAMPLE = """\
  trainshed tokens create --project demo --role submitter --name laptop
  trainshed tokens create --role viewer --out viewer-token
  trainshed tokens list --format json"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    parser = _parser(prog)
    args = parser.read(argv)
    if (args.action == "revoke") != (args.id is not None):
        parser.error("revoke takes the ID of a token, and nothing else does")
    return flags.Request(args)


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Makes, lists and revokes tokens. A running server is asked; without one, its "
        "database is changed. A token's text is shown when it is made and never again.",
        example=EXAMPLE,
        usage=f"{prog} create | list | revoke ID [flags]",
    )
    parser.add_argument("action", choices=("create", "list", "revoke"), metavar="ACTION")
    parser.add_argument("id", metavar="ID", nargs="?", help="which token to revoke")
    parser.add_argument("--name", help="What the token is called in logs and lists")
    add_grant_flags(parser)
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="Write the token to a file of mode 600 instead"
    )
    add_server_flags(parser)
    add_database_flag(parser)
    flags.add_format(parser)
    return parser
