"""``trainshed jobs events``, ``trainshed jobs explain`` and ``trainshed jobs manifest``."""

from collections.abc import Iterator
from typing import Final

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.job_names import HELP, find_job
from trainshed.cli.jobs.job_titles import JobTitles
from trainshed.cli.jobs.resource_texts import date_of, wait_lines
from trainshed.cli.terminal import print_result, table
from trainshed.client.faults import Json

_SUMMARIES = {
    "events": "Lists the events of a job with their times.",
    "explain": "Explains why a job waits or failed: what it waits for, its place in the queue, and "
    "the one change that would let it start now.",
    "manifest": "Prints what the engine of an attempt received, without secrets: the launch plan, "
    "and on a cluster the script and the command line.",
}


def parser(prog: str) -> flags.Parser:
    """Return the parser of one action."""
    action = prog.rpartition(" ")[2]
    parser = flags.Parser(
        prog,
        summary=_SUMMARIES[action],
        example=f"  {prog} census_1",
        usage=f"{prog} JOB [flags]",
    )
    parser.set_defaults(action=action)
    parser.add_argument("job", metavar="JOB", help=HELP)
    if action == "manifest":
        parser.add_argument(
            "--attempt", type=int, help="Number of the attempt; default: the newest"
        )
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Carry out one action."""
    args = request.args
    context = context_of(args)
    path = find_job(context, args.job).path
    if args.action == "events":
        events = list(_events(context, path))
        rows = [(date_of(e["time"]), e["attempt"], e["kind"], e["message"]) for e in events]
        print_result(args.format, events, table(("TIME", "ATTEMPT", "EVENT", "MESSAGE"), rows))
    elif args.action == "manifest":
        query = {} if args.attempt is None else {"attempt": args.attempt}
        document = context.server.call("GET", f"{path}/manifest", query=query)
        print_result(args.format, document, "\n".join(list_manifest_lines(document)))
    else:
        document = context.server.call("GET", f"{path}/explain")
        print_result(
            args.format, document, "\n".join(_explanation(document, JobTitles(context.server)))
        )
    return 0


def _events(context: ServerContext, path: str) -> Iterator[Json]:
    last_seq = 0
    while events := context.server.call("GET", f"{path}/events", query={"after": last_seq})[
        "events"
    ]:
        yield from events
        last_seq = events[-1]["seq"]


def list_manifest_lines(document: Json) -> Iterator[str]:
    """Yield the lines of the manifest of an attempt, for users."""
    yield f"{document['job']}: attempt {document['attempt']}, engine {document['engine']}"
    for part in document["parts"]:
        yield f"--- {part['name']}"
        yield part["text"]


#: Sentences that the server may add to the state of a job.
_ADDITIONS: Final = ("warning", "reduction", "steps", "outcome", "goodput")


def _explanation(document: Json, titles: JobTitles) -> Iterator[str]:
    yield f"{document['name']}: {document['state']}"
    if waiting := document.get("waiting", {}):
        yield from wait_lines(titles.name_waiting(waiting))
    else:
        yield titles.name_jobs(document["message"])
    yield from (document[part] for part in _ADDITIONS if part in document)
