"""``trainshed jobs list --watch``: the jobs that have not ended, and each of their changes."""

import argparse
from datetime import UTC, datetime
from typing import Final

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext
from trainshed.cli.jobs.job_names import id_of_row
from trainshed.cli.terminal import note, out, out_json
from trainshed.client.faults import Json
from trainshed.client.job_changes import JobChanges
from trainshed.model.faults import UsageFault
from trainshed.model.visible import visible_line

#: The longest state, and the longest reason to wait.
_STATE: Final = len("PREPARING ")
_REASON: Final = len("ENGINE_QUEUE")


def check_flags(args: argparse.Namespace, order: flags.ListFlags) -> None:
    """Raise UsageFault for a flag that is for a list that ends."""
    others = {
        "--label": args.label,
        "--since": args.since,
        "--kind trial": args.kind == "trial",
        "--filter": order.filter,
        "--sort-by": order.sort_by,
        "--limit": order.limit,
        "--page-size": order.page_size,
    }
    if wrong := next((name for name, value in others.items() if value), None):
        raise UsageFault(f"--watch prints jobs as they change; omit {wrong}, or --watch")
    if args.format not in {"text", "json"}:
        raise UsageFault(f"--format must be text or json with --watch, got {args.format}")


def follow(context: ServerContext, args: argparse.Namespace, kind: str | None) -> int:
    """Print a line for each open job, and again whenever it changes; until Ctrl-C."""
    project = "-" if args.all_projects else context.project
    for row in JobChanges(context.server, project, note).rows():
        if _matches(row, args, kind):
            _print(row, args)
    return 0


def _matches(row: Json, args: argparse.Namespace, kind: str | None) -> bool:
    return (
        (not args.state or row["state"] in args.state)
        and kind in {None, row["kind"]}
        and args.user in {None, row["creator"]}
    )


def _print(row: Json, args: argparse.Namespace) -> None:
    if args.format == "json":
        out_json(row, indent=None)
        return
    state, reason = row["state"], row.get("reason") or row.get("node") or ""
    project = f"{row['project']}  " if args.all_projects else ""
    columns = f"{datetime.now(tz=UTC):%H:%M:%S}  {project}{state:<{_STATE}}  {reason:<{_REASON}}"
    out(visible_line(f"{columns}  {row['displayName']}  {row['creator']}  {id_of_row(row)}"))
