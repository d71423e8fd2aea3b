"""``trainshed plan calibrations``: what the jobs of a server have taught of their trainers."""

from trainshed.cli import flags
from trainshed.cli.connecting import place_of
from trainshed.cli.resource_texts import date_of
from trainshed.cli.terminal import answer, note, out, table
from trainshed.model.faults import UsageFault

EXAMPLE = """\
  trainshed plan calibrations
  trainshed plan calibrations 3f2a9c0d1e5b7788 > learned.toml"""
_HEADERS = ("KEY", "JOBS", "NEWEST", "MODEL", "MACHINE", "ACCELERATOR")


def parser(prog: str) -> flags.Parser:
    """The command line."""
    parser = flags.Parser(
        prog,
        summary="Lists the calibrations that a server has made of the steps of a project's jobs; "
        "with a KEY it prints that one, as trainshed plan --calibration takes it.",
        example=EXAMPLE,
        usage=f"{prog} [KEY] [flags]",
    )
    parser.add_argument("key", metavar="KEY", nargs="?", help="One of the list")
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """List them, or print one.  Raises UsageFault."""
    args = request.args
    place = place_of(args)
    path = f"/trainshed/v1/projects/{place.project}/calibrations"
    found = place.server.call("GET", path)["calibrations"]
    if args.key is None:
        if not found:
            note("no job of this project has reported its steps yet")
        rows = [
            (
                each["key"], each["jobs"], date_of(each["updateTime"]), each["model"] or "-",
                each["machineType"], each["accelerator"],
            )
            for each in found
        ]  # fmt: skip
        answer(args, found, table(_HEADERS, rows))
        return 0
    document = next((each["document"] for each in found if each["key"] == args.key), None)
    if document is None:
        raise UsageFault(f"{args.key}: no calibration of this project has this key")
    out(document)
    return 0
