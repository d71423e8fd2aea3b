"""``trainshed plan calibrations``: lists the calibrations that a server made from its jobs."""

from http import HTTPStatus

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.resource_texts import date_of
from trainshed.cli.plan.plan_achieved import HOW_TO_REPORT
from trainshed.cli.terminal import note, out, print_result, table
from trainshed.client.collections import path_of
from trainshed.client.faults import Json, ServerRefusal
from trainshed.model.faults import UsageFault

EXAMPLE = """\
  trainshed plan calibrations
  trainshed plan calibrations 3f2a9c0d1e5b7788 > learned.toml"""
_HEADERS = ("KEY", "JOBS", "NEWEST", "MODEL", "MACHINE", "ACCELERATOR")


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Lists the calibrations that a server made from the steps of a project's jobs; "
        "with a KEY it prints that calibration as a file for trainshed plan --calibration.",
        example=EXAMPLE,
        usage=f"{prog} [KEY] [flags]",
    )
    parser.add_argument("key", metavar="KEY", nargs="?", help="Key of a calibration in the list")
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """List the calibrations, or print one.  Raises UsageFault, ServerRefusal."""
    args = request.args
    context = context_of(args)
    if args.key is not None:
        if (calibration := _read_calibration(context, args.key)) is None:
            raise UsageFault(
                f"project {context.project} has no calibration {args.key}; list them with: "
                "trainshed plan calibrations"
            )
        out(calibration["document"])
        return 0
    calibrations = context.server.call("GET", _path(context))["calibrations"]
    if not calibrations:
        note(
            f"no calibrations: no job has reported its steps; a job reports them if {HOW_TO_REPORT}"
        )
    rows = [
        (
            row["key"], row["jobs"], date_of(row["updateTime"]), row["model"] or "-",
            row["machineType"], row["accelerator"],
        )
        for row in calibrations
    ]  # fmt: skip
    if args.format == "json":  # the list does not contain the documents
        calibrations = [
            whole for row in calibrations if (whole := _read_calibration(context, row["key"]))
        ]
    print_result(args.format, calibrations, table(_HEADERS, rows))
    return 0


def _path(context: ServerContext, *key: str) -> str:
    return path_of("trainshed", "v1", "projects", context.project, "calibrations", *key)


def _read_calibration(context: ServerContext, key: str) -> Json | None:
    """Return a calibration with its document; None if the project has none with this key."""
    try:
        return context.server.call("GET", _path(context, key))
    except ServerRefusal as refusal:
        if refusal.http_status != HTTPStatus.NOT_FOUND:
            raise
        return None
