"""The command line of ``trainshed catalog``."""

from collections.abc import Sequence

from trainshed.cli import flags

#: What can be shown; ``workbench.catalog_rows`` has a function for each.
NOUNS = ("machine-types", "accelerators", "regions", "runtimes", "images", "editions")

EXAMPLE = """\
  trainshed catalog machine-types list --edition 2020-08
  trainshed catalog accelerators describe NVIDIA_TESLA_T4 --edition 2020-08 --format json"""


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.Request(_parser(prog).read(argv))


def _parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Shows what the catalog knows: with sources, and as of an edition.",
        example=EXAMPLE,
        usage=f"{prog} NOUN [list | describe NAME] [flags]",
    )
    parser.add_argument("noun", choices=NOUNS, metavar="NOUN", help=", ".join(NOUNS))
    parser.add_argument(
        "action", choices=("list", "describe"), nargs="?", default="list", help="default: list"
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="what to describe")
    parser.add_argument("--edition", metavar="ID", help="default: the newest")
    parser.add_argument("--zone-snapshot", metavar="ID", help="zone data, for regions")
    parser.add_argument("--overlay", metavar="FILE", action="append", default=[])
    flags.add_format(parser)
    return parser
