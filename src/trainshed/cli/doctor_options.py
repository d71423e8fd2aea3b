"""The command line of ``trainshed doctor``."""

from collections.abc import Sequence

from trainshed.cli import flags

EXAMPLE = """\
  trainshed doctor
  trainshed doctor --data-dir /srv/trainshed --format json"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    parser = flags.Parser(
        prog,
        summary="Checks a data directory, its database and its processes against everything that "
        "Trainshed promises, whether its server runs or not, and changes nothing. Prints each "
        "promise with ok or FAILED, what is at fault and what to do. Exit code: 0 if all hold, 1 "
        "if one fails, 2 if something cannot be looked at.",
        example=EXAMPLE,
        usage=f"{prog} [flags]",
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", help="Data directory; default: TRAINSHED_DATA_DIR"
    )
    parser.add_argument(
        "--database", metavar="URL", help="The server's database; default: as in config.toml"
    )
    flags.add_format(parser)
    return flags.Request(parser.read(argv))
