"""``trainshed jobs events`` and ``trainshed jobs explain``."""

from collections.abc import Iterator, Sequence

from trainshed.cli import flags
from trainshed.cli.client_flags import add_client_flags
from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.flags import Request
from trainshed.cli.resource_texts import date_of, why_it_waits
from trainshed.cli.terminal import out, out_json, table
from trainshed.client.collections import native_path
from trainshed.client.faults import Json

_SUMMARIES = {
    "events": "Tells the story of a job: what happened to it, and when.",
    "explain": "Says why a job is where it is: what it waits for, its place in the queue, and the "
    "one change that would let it start now.",
}


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    return flags.Request(_parser(prog).read(argv))


def _parser(prog: str) -> flags.Parser:
    action = prog.rpartition(" ")[2]
    parser = flags.Parser(
        prog,
        summary=_SUMMARIES[action],
        example=f"  {prog} census_1",
        usage=f"{prog} JOB [flags]",
    )
    parser.set_defaults(action=action)
    parser.add_argument(
        "job", metavar="JOB", help="AI Platform job id, Vertex job number, or full name of either"
    )
    add_client_flags(parser)
    return parser


def run(request: Request) -> int:
    """Carry out one action."""
    args = request.args
    place = place_of(args)
    path = native_path(args.job, place.project)
    if args.action == "events":
        _print_events(list(_events(place, path)), as_json=args.format == "json")
    else:
        _print_explanation(place.server.call("GET", f"{path}/explain"), args)
    return 0


def _events(place: ServerPlace, path: str) -> Iterator[Json]:
    after = 0
    while found := place.server.call("GET", f"{path}/events", query={"after": after})["events"]:
        yield from found
        after = found[-1]["seq"]


def _print_events(events: list[Json], *, as_json: bool) -> None:
    if as_json:
        out_json(events)
        return
    rows = [(date_of(e["time"]), e["attempt"], e["kind"], e["message"]) for e in events]
    out(table(("TIME", "ATTEMPT", "EVENT", "MESSAGE"), rows))


def _print_explanation(found: Json, args: object) -> None:
    if getattr(args, "format", "") == "json":
        out_json(found)
        return
    waiting = found.get("waiting", {})
    out(f"{found['name']}: {found['state']}")
    out("\n".join(why_it_waits(waiting)) if waiting else found["message"])
    if "reduction" in found:
        out(found["reduction"])
