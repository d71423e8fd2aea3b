"""The command lines of ``report``, for tuning jobs of both dialects."""

from collections.abc import Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags
from trainshed.cli.resources import NOUNS


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    group = prog.removeprefix("trainshed ").rpartition(" ")[0]
    _, example = NOUNS[group]
    parser = flags.Parser(
        prog,
        summary="Writes how a tuning job went, or goes: one HTML page with Optuna's plots, the "
        "best trial with its arguments and a table of all trials, which needs no network and no "
        "other file; and the same table as CSV.",
        example=f"  {prog} {example}\n  {prog} {example} --out reports/",
        usage=f"{prog} NAME [flags]",
    )
    parser.set_defaults(group=group)
    parser.add_argument("name", metavar="NAME", help="Id or full name of the tuning job")
    parser.add_argument(
        "--out",
        metavar="PLACE",
        help="The page (a name that ends with .html, the table goes beside it) or a folder for "
        "both; default: the current folder",
    )
    add_client_flags(parser, region="Location" if group.startswith("ai ") else "")
    return flags.Request(parser.read(argv))
