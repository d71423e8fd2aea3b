"""``trainshed plan calibrations``: what the jobs of a server have taught of their trainers."""

from http import HTTPStatus

from trainshed.cli import flags
from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.jobs.resource_texts import date_of
from trainshed.cli.terminal import answer, note, out, table
from trainshed.client.collections import path_of
from trainshed.client.faults import Json, ServerRefusal
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
    """List them, or print one.  Raises UsageFault, ServerRefusal."""
    args = request.args
    place = place_of(args)
    if args.key is not None:
        if (calibration := _whole(place, args.key)) is None:
            raise UsageFault(f"{args.key}: no calibration of this project has this key")
        out(calibration["document"])
        return 0
    calibrations = place.server.call("GET", _path(place))["calibrations"]
    if not calibrations:
        note("no job of this project has reported its steps yet")
    rows = [
        (
            row["key"], row["jobs"], date_of(row["updateTime"]), row["model"] or "-",
            row["machineType"], row["accelerator"],
        )
        for row in calibrations
    ]  # fmt: skip
    if args.format == "json":  # the list has no documents: a table needs none
        calibrations = [whole for row in calibrations if (whole := _whole(place, row["key"]))]
    answer(args.format, calibrations, table(_HEADERS, rows))
    return 0


def _path(place: ServerPlace, *key: str) -> str:
    return path_of("trainshed", "v1", "projects", place.project, "calibrations", *key)


def _whole(place: ServerPlace, key: str) -> Json | None:
    """One with its document; None if there is none of the key, or no more."""
    try:
        return place.server.call("GET", _path(place, key))
    except ServerRefusal as refusal:
        if refusal.http_status != HTTPStatus.NOT_FOUND:
            raise
        return None
