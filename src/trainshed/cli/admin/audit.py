"""``trainshed audit list``: changes and refused calls, with their callers."""

from typing import Any

from trainshed.cli import flag_values, flags
from trainshed.cli.connecting import context_of
from trainshed.cli.jobs.resource_texts import date_of
from trainshed.cli.terminal import note, print_result, table
from trainshed.client.faults import Json

LIMIT = 100
LIMIT_MAX = 1000
EXAMPLE = """\
  trainshed audit list
  trainshed audit list --project demo --since 24h
  trainshed audit list --since 2026-11-21T15:00:00Z --limit 1000 --format json"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Lists the newest entries of the audit log, the oldest of them first: every change "
        "and every call that its caller may not make. For administrators of all projects.",
        example=EXAMPLE,
        usage=f"{prog} [flags]",
    )
    add = flags.adder(parser)
    add("--since TIME", "A time, or a duration such as 24h ago", type=flag_values.time_since)
    add(
        "--limit N",
        f"1 to {LIMIT_MAX} ({LIMIT})",
        type=flag_values.whole_number(1, LIMIT_MAX),
        default=LIMIT,
    )
    flags.add_client_flags(parser)
    return parser


_HEADERS = ("TIME", "STATUS", "CALLER", "CREDENTIAL", "FROM", "METHOD", "RESOURCE")


def run(request: flags.Request) -> int:
    """List the entries."""
    args = request.args
    query = {"limit": args.limit, "since": args.since, "project": args.project}
    entries = context_of(args).server.call("GET", "/trainshed/v1/audit", None, query)["entries"]
    if not entries:
        note("the audit log has no such entry")
    print_result(args.format, entries, table(_HEADERS, map(_row, entries)))
    return 0


def _row(entry: Json) -> tuple[Any, ...]:
    """Return the cells; of an HTTP method only the verb, because the resource has the path."""
    verb, _, _ = entry["method"].partition(" ")
    return (
        date_of(entry["time"]), entry["status"], entry["caller"] or "-", entry["credential"] or "-",
        entry["address"], verb, entry["resource"],
    )  # fmt: skip
