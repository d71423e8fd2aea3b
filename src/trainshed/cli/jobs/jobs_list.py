"""``trainshed jobs list``: lists the jobs of all kinds of a project, newest first."""

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from trainshed.cli import flag_values, flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.job_names import id_of_row, list_path
from trainshed.cli.jobs.progress_texts import read_progress, step_cells, steps_text
from trainshed.cli.jobs.resource_texts import date_of, duration_text, time_of
from trainshed.cli.projection import print_resources
from trainshed.cli.terminal import note, table, wants_colour
from trainshed.client.collections import pages
from trainshed.client.faults import Json

EXAMPLE = """\
  trainshed jobs list
  trainshed jobs list --state running,queued --since 2d
  trainshed jobs list --watch
  trainshed jobs list --format "value(name,state)" --limit 5"""

#: The largest page that the server gives.
PAGE_SIZE: Final = 5000

#: The words of ``--state``, and the states of the server that they select.
_STATES: Final[Mapping[str, Sequence[str]]] = {
    "QUEUED": ("QUEUED", "ENQUEUED"),
    "PENDING": ("QUEUED", "ENQUEUED", "PREPARING"),
    "RUNNING": ("RUNNING", "RESTARTING"),
    **{
        state: (state,)
        for state in (
            *("ENQUEUED", "PREPARING", "RESTARTING", "CANCELLING"),
            *("SUCCEEDED", "FAILED", "CANCELLED"),
        )
    },
}
KINDS: Final[Mapping[str, str]] = {
    "ai-platform": "AI_PLATFORM_JOB",
    "custom": "CUSTOM_JOB",
    "tuning": "TUNING_JOB",
    "pipeline": "TRAINING_PIPELINE",
    "trial": "TRIAL",
}
_KIND_WORDS: Final = {kind: word for word, kind in KINDS.items()}
#: The length of a time without its seconds.
_MINUTES: Final = len("2026-11-21 15:00")


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Lists AI Platform jobs, custom jobs, tuning jobs and training pipelines together, "
        "newest first. The trials of a tuning job are listed with --kind trial.",
        example=EXAMPLE,
        usage=f"{prog} [flags]",
    )
    add = flags.adder(parser)
    add(
        "--state STATE,...",
        f"Only jobs in these states: {', '.join(_STATES).lower()}",
        type=_states,
        default=(),
    )
    add(
        "--since TIME",
        "Only jobs created since this time: a duration before now (1h, 2d), a date, or a time",
        type=flag_values.time_since,
    )
    add("--kind", "Only jobs of this kind", choices=KINDS)
    add("--user NAME", "Only jobs that this user submitted")
    add("--label KEY[:VALUE]", "Only jobs with this label")
    add("--all-projects", "Jobs of all projects that the caller may see", action="store_true")
    add(
        "--watch",
        "Only jobs that have not ended: print a line for each, and again whenever it changes, "
        "until Ctrl-C",
        action="store_true",
    )
    flags.add_list_flags(parser)
    flags.add_client_flags(parser, projected=True)
    return parser


def _states(text: str) -> Sequence[str]:
    words = [word.strip().upper().removeprefix("JOB_STATE_") for word in text.split(",")]
    if unknown := [word for word in words if word not in _STATES]:
        accepted = ", ".join(_STATES).lower()
        raise argparse.ArgumentTypeError(
            f"must be one or more of {accepted}, got {unknown[0].lower()!r}"
        )
    return sorted({state for word in words for state in _STATES[word]})


def run(request: flags.Request) -> int:
    """Print the jobs."""
    args = request.args
    context = context_of(args)
    filters = {
        "state": args.state or None,
        "kind": KINDS.get(args.kind),
        "creator": args.user,
        "label": args.label,
        "since": args.since,
    }
    order = flags.list_flags_of(args)
    if args.watch:
        from trainshed.cli.jobs import jobs_follow

        jobs_follow.check_flags(args, order)
        return jobs_follow.follow(context, args, KINDS.get(args.kind))
    project = "-" if args.all_projects else context.project
    path = list_path(project)
    rows = list(_rows(context, path, filters, order))
    if not rows and args.format == "text":
        where = "your projects have" if args.all_projects else f"project {context.project} has"
        is_filtered = any((*filters.values(), order.filter))
        which = " that matches the filters" if is_filtered else ""
        others = "" if args.all_projects else "; other projects: --all-projects"
        note(f"{where} no job{which}{others}")

    def write_text() -> str:
        is_running = any(row["state"] == "RUNNING" for row in rows)
        running = read_progress(context.server, project) if is_running else {}
        progress = {row["name"]: running[row["name"]] for row in rows if row["name"] in running}
        return _text(rows, progress, several=args.all_projects)

    print_resources(args.format, rows, write_text)
    return 0


def _rows(
    context: ServerContext, path: str, filters: Mapping[str, object], order: flags.ListFlags
) -> Iterator[Json]:
    rows_needed = None if order.filter or order.sort_by else order.limit
    page_size = order.page_size or min(rows_needed or PAGE_SIZE, PAGE_SIZE)
    rows = pages(context.server, path, "jobs", {**filters, "pageSize": page_size})
    if order.filter or order.sort_by:
        from trainshed.cli.jobs.list_words import make_arranger

        rows = make_arranger(order.filter, order.sort_by)(rows)
    return islice(rows, order.limit)


def _text(rows: Sequence[Json], progress: Mapping[str, Json], *, several: bool) -> str:
    """Return a table; without ids if the terminal is too narrow and the names are unique.

    Steps are listed if one of the jobs has reported some.
    """
    if not rows:
        return ""
    now = datetime.now(tz=UTC)
    has_steps = any(map(steps_text, progress.values()))
    headers = (
        *(("PROJECT",) if several else ()),
        *("NAME", "KIND", "STATE", "START", "DURATION"),
        *(("STEP", "PER STEP") if has_steps else ()),
        *("USER", "NODE", "ID"),
    )
    cells = [
        (
            *((row["project"],) if several else ()),
            *_run_cells(row, now),
            *(step_cells(progress.get(row["name"])) if has_steps else ()),
            *_owner_cells(row),
        )
        for row in rows
    ]
    colour = wants_colour("auto", sys.stdout)
    text = table(headers, cells, colour=colour)
    if _is_too_wide(headers, cells) and _are_names_unique(rows):
        text = table(headers[:-1], (row[:-1] for row in cells), colour=colour)
    return text


def _run_cells(row: Json, now: datetime) -> tuple[str, ...]:
    return (
        row["displayName"],
        _KIND_WORDS.get(str(row["kind"]), str(row["kind"])),
        row["state"],
        date_of(row.get("startTime"))[:_MINUTES],
        run_time(row, now),
    )


def _owner_cells(row: Json) -> tuple[str, ...]:
    nodes = row["nodes"]
    node = row.get("node", "") + (f" +{nodes - 1}" if nodes > 1 else "")
    return row["creator"], node, id_of_row(row)


def run_time(job: Json, now: datetime) -> str:
    """Return the time since a job's first start, until its end if it has ended; empty before."""
    if "startTime" not in job:
        return ""
    end = time_of(job["endTime"]) if "endTime" in job else now
    return duration_text((end - time_of(job["startTime"])).total_seconds())


def _is_too_wide(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    if not sys.stdout.isatty():
        return False
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1) > shutil.get_terminal_size().columns


def _are_names_unique(rows: Sequence[Json]) -> bool:
    return max(Counter(row["displayName"] for row in rows).values()) == 1
