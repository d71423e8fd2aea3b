"""``trainshed jobs goodput``: how a job used the time in which it held its machines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.jobs.job_names import TRIAL_HELP, find_path
from trainshed.cli.terminal import print_result, table
from trainshed.client.faults import Json

EXAMPLE: Final = """\
  trainshed jobs goodput census_1
  trainshed jobs goodput census_1 --format json"""
#: The columns of the table, by the names of the answer.
_USES: Final = ("held", "starting", "lost", "stalled", "saving", "stopping", "productive")
_JOULES_A_KWH: Final = 3.6e6
_CENT: Final = 0.01


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Shows the goodput of a job: the share of the time with machines in which it made "
        "steps that were kept, where the rest went, and what it has cost. Times are seconds.",
        example=EXAMPLE,
        usage=f"{prog} JOB [flags]",
    )
    parser.add_argument("job", metavar="JOB", help=TRIAL_HELP)
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Print the goodput of the job."""
    context = context_of(request.args)
    path = find_path(context, request.args.job)
    answer = context.server.call("GET", f"{path}/goodput")
    print_result(request.args.format, answer, "\n".join(_list_lines(answer)))
    return 0


def _list_lines(answer: Json) -> Iterator[str]:
    yield answer["message"]
    yield ""
    yield table(("ATTEMPT", "GOODPUT", *map(str.upper, _USES), "STEPS"), _list_rows(answer))
    yield ""
    seconds = answer["seconds"]
    waits = f"waited {seconds['first_wait']:.0f} s first, {seconds['other_waits']:.0f} s later"
    yield f"wall time {seconds['wall']:.0f} s: {waits}, held machines {seconds['held']:.0f} s"
    yield f"scheduling {_percent(answer['scheduling'])}, ETTR {_percent(answer['ettr'])}" + (
        f", program {_percent(answer['program'])}" if answer["program"] is not None else ""
    )
    if (joules := answer["energy_j"]) is not None:
        yield f"energy of its GPUs {joules / _JOULES_A_KWH:.3g} kWh"
    if cost := answer["cost"]:
        yield from _list_costs(cost)


def _list_rows(answer: Json) -> Iterator[Sequence[object]]:
    for attempt in answer["attempts"]:
        yield _row(str(attempt["attempt"]), attempt, _steps(attempt))
    if len(answer["attempts"]) != 1:
        yield _row("all", answer, "")


def _row(name: str, part: Json, steps: str) -> Sequence[object]:
    seconds: Mapping[str, float] = {"held": sum(part["seconds"].values()), **part["seconds"]}
    highest = part["at_most"]
    goodput = _percent(part["goodput"]) if highest is None else f"at most {_percent(highest)}"
    return (name, goodput, *(f"{seconds[use]:.0f}" for use in _USES), steps)


def _steps(attempt: Json) -> str:
    first, last = attempt["first_step"], attempt["last_step"]
    return "" if first is None or last is None else f"{first} to {last}"


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * ratio:.1f} %"


def _list_costs(cost: Json) -> Iterator[str]:
    shown = {use: amount for use, amount in cost["parts"].items() if amount >= _CENT / 2}
    if parts := [f"{use} {amount:,.2f}" for use, amount in shown.items()]:
        yield f"cost in {cost['currency']}: {', '.join(parts)}"
    if cost["source"]:
        yield f"prices: {', '.join(filter(None, (cost['source'], cost['date'])))}"
    yield from cost["lacking"]
