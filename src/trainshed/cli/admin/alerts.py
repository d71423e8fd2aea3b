"""``trainshed alerts``: the conditions that a person should look at, by the server."""

from typing import Any

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.jobs.resource_texts import date_of
from trainshed.cli.terminal import note, print_result, table
from trainshed.client.faults import Json

EXAMPLE = """\
  trainshed alerts
  trainshed alerts --format json"""
_HEADERS = ("SINCE", "ALERT", "WHAT", "MESSAGE")


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Lists what a person should look at: hung replicas, GPUs that a job has held for "
        "30 minutes without using them, a queue that is stuck, nodes that no engine reports, and "
        "disks that are nearly full. GPUs and disks are those of the answering server's machine.",
        example=EXAMPLE,
        usage=f"{prog} [flags]",
    )
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """List the alerts."""
    args = request.args
    alerts = context_of(args).server.call("GET", "/trainshed/v1/alerts", None)["alerts"]
    if not alerts:
        note("no alert")
    if alerts or args.format == "json":
        print_result(args.format, alerts, table(_HEADERS, map(_row, alerts)))
    return 0


def _row(alert: Json) -> tuple[Any, ...]:
    return (date_of(alert["since"]), alert["kind"], alert["subject"], alert["message"])
