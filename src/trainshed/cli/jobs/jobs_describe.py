"""``trainshed jobs describe``: prints a job of either dialect, and its document."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.job_names import TRIAL_HELP, NamedJob, find_job, find_trial
from trainshed.cli.jobs.job_titles import JobTitles
from trainshed.cli.jobs.jobs_list import run_time
from trainshed.cli.jobs.resource_texts import date_of, wait_lines
from trainshed.cli.jobs.resources import replica_groups
from trainshed.cli.projection import print_resource
from trainshed.cli.terminal import note, state_text, table, wants_colour
from trainshed.client.collections import collection_of, commands_of
from trainshed.client.faults import Json
from trainshed.model.visible import visible_line

EXAMPLE = """\
  trainshed jobs describe census_1
  trainshed jobs describe census_1 --format json
  trainshed jobs describe census_1 --format "value(state,endTime)\""""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Shows a job: its state, times, user, replicas and their nodes, and why it waits "
        "or failed. JSON and YAML also contain the job's document in its own API, as resource.",
        example=EXAMPLE,
        usage=f"{prog} JOB [flags]",
    )
    parser.add_argument("job", metavar="JOB", help=TRIAL_HELP)
    flags.add_client_flags(parser, projected=True)
    return parser


def run(request: flags.Request) -> int:
    """Print the job, or the trial that the caller named."""
    args = request.args
    context = context_of(args)
    named = find_job(context, args.job)
    if named.trial:
        trial = find_trial(context, named)
        print_resource(args.format, trial, lambda: _pairs(list(trial.items())))
        return 0
    resource, titles = _resource(context, named), JobTitles(context.server)
    document = {**named.job, "resource": resource}
    print_resource(args.format, document, lambda: _text(named.job, resource, titles))
    if args.format == "text":
        note(f"print its log with: {context.command(f'jobs logs {args.job}')}")
    return 0


def _resource(context: ServerContext, named: NamedJob) -> Json:
    """Return the job's document in its own API; empty for a trial of AI Platform."""
    return {} if "/trials/" in named.name else context.server.call("GET", f"/v1/{named.name}")


def _text(job: Json, resource: Json, titles: JobTitles) -> str:
    parts = [_pairs(list(_head(job, titles)))]
    if groups := list(replica_groups(resource)):
        parts.append(table(("ROLE", "COUNT", "MACHINE TYPE", "ACCELERATORS"), groups))
    if job["replicas"]:
        rows = (
            (r["taskName"], r["state"], r["node"], r.get("exitCode"), r.get("signal"))
            for r in job["replicas"]
        )
        headers = ("REPLICA", "STATE", "NODE", "EXIT CODE", "SIGNAL")
        parts.append(table(headers, rows, colour=wants_colour("auto", sys.stdout)))
    return "\n\n".join(parts)


def _head(job: Json, titles: JobTitles) -> Iterator[tuple[str, str]]:
    group, _ = commands_of(job["name"])
    yield "name", job["displayName"]
    yield "full name", job["name"]
    yield "kind", "AI Platform job" if group == "ai-platform jobs" else collection_of(group).noun
    yield "state", job["state"]
    yield "user", job["creator"]
    for word, field in (("created", "createTime"), ("started", "startTime"), ("ended", "endTime")):
        if field in job:
            yield word, date_of(job[field])
    if duration := run_time(job, datetime.now(tz=UTC)):
        yield "duration", duration
    if job["attempt"] > 1 or job.get("restarts"):
        causes = ", ".join(f"{n} {cause}" for cause, n in job.get("restarts", {}).items() if n)
        yield "attempt", f"{job['attempt']}" + (f" (restarts: {causes})" if causes else "")
    for text in wait_lines(titles.name_waiting(job.get("waiting", {}))):
        yield "waits", text.removeprefix("waits: ")
    if "error" in job:
        yield "error", job["error"]
    if "outcome" in job:
        yield "outcome", job["outcome"]["sentence"]


def _pairs(rows: list[tuple[str, object]] | list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    colour = wants_colour("auto", sys.stdout)
    texts = ((name, visible_line(str(value))) for name, value in rows)
    return "\n".join(
        f"{name:<{width}}  {state_text(value, on=colour) if name == 'state' else value}"
        for name, value in texts
    )
