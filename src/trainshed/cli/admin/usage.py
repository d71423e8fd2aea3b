"""``trainshed usage``: what machines were used for, and what that cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from trainshed.cli import flags
from trainshed.cli.admin.usage_machines import gpu_number, gpu_type, gpu_uuid, list_holders
from trainshed.cli.connecting import context_of
from trainshed.cli.terminal import note, out, out_json, table
from trainshed.client.faults import Json
from trainshed.model.csv_text import csv_text
from trainshed.model.time_use import HELD_USES

EXAMPLE = """\
  trainshed usage
  trainshed usage --by user --since yesterday --until yesterday
  trainshed usage --by job --since yesterday --until yesterday
  trainshed usage --by gpu --since yesterday --until yesterday
  trainshed usage --by type --since 2026-11-01 --project demo
  trainshed usage --by day --since 7d --format csv"""

_JOB: Final = "job"
_GPU: Final = "gpu"
_NODE: Final = "node"
_KEYS: Final = ("project", "user", "type", "day", _JOB, _NODE, _GPU)
_HOUR_S: Final = 3600.0
_KWH_J: Final = 3.6e6
_IDLE: Final = "idle"
#: The last columns of CSV; ``other_costs`` are those in other currencies, such as "9.5 USD".
_COST_COLUMNS: Final = ("cost", "currency", "at_least", "idle_cost", "other_costs")
#: Uses of GPU time with a column of their own, as shares of the time that jobs held GPUs.
_SHARES: Final = ("productive", _IDLE, "lost", "stalled", "starting", "unknown")
#: Numbers below a limit have so many digits behind the point.
_DIGITS: Final = ((0.1, 4), (100.0, 2), (1000.0, 1))


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Adds up the time for which jobs held GPUs and machines by its use, with energy "
        "and its cost. Needs a token of a viewer, whose project it shows; a token of all projects "
        "shows all, and the states of all GPUs. Jobs that run are counted until some minutes ago.",
        example=EXAMPLE,
        usage=f"{prog} [flags]",
    )
    add = flags.adder(parser)
    add("--by KEY", "project, user, type (of machines), day, job, node or gpu (project); by node "
        "and gpu the longest idle time comes first", choices=_KEYS, default="project")  # fmt: skip
    add("--since DAY", "First day (UTC): 2026-11-01, today, yesterday, 7d (30d)")
    add("--until DAY", "Last day (UTC), included (today)")
    flags.add_client_flags(parser, forms=("table", "json", "csv"))
    return parser


def run(request: flags.Request) -> int:
    """Print the report."""
    args = request.args
    query = {"by": args.by, "since": args.since, "until": args.until, "project": args.project}
    report = context_of(args).server.call("GET", "/trainshed/v1/usage", None, query)
    if not report["rows"]:
        note(f"no job held a machine from {report['since']} to {report['until']} (UTC)")
    if args.format == "json":
        out_json(report)
    elif args.format == "csv":
        out(_csv(report).rstrip("\n"))
    else:
        _print_table(report)
    return 0


def _csv(report: Json) -> str:
    uses = [f"{kind}_{use}_s" for kind in ("gpu", "vcpu") for use in HELD_USES]
    lead = [(name.lower(), cell) for name, cell in _lead(report["by"])]
    last = [("held_by", list_holders)] if report["by"] in {_NODE, _GPU} else []
    head = [*(name for name, _ in lead), *uses, "energy_j", *_COST_COLUMNS]
    rows = [
        [*(cell(row) for _, cell in lead), *_csv_row(row), *(cell(row) for _, cell in last)]
        for row in report["rows"]
    ]
    return csv_text([[*head, *(name for name, _ in last)], *rows])


def _lead(by: str) -> Sequence[tuple[str, Callable[[Json], object]]]:
    """Return the names and the cells of the first columns, which say what a row is of."""
    if by == _GPU:
        return (("NODE", _node), ("GPU", gpu_number), ("UUID", gpu_uuid), ("TYPE", gpu_type))
    second = "user" if by == _JOB else "jobs"
    return ((by.upper(), itemgetter("key")), (second.upper(), itemgetter(second)))


def _node(row: Json) -> str:
    return str(row["node"] or "unknown")


def _csv_row(row: Json) -> Sequence[object]:
    seconds = [
        round(row[kind].get(use, 0.0), 3)
        for kind in ("gpu_seconds", "vcpu_seconds")
        for use in HELD_USES
    ]
    cost = row["cost"] or {}
    others = "; ".join(f"{other['amount']} {other['currency']}" for other in row["other_costs"])
    idle = cost.get("parts", {}).get(_IDLE)
    money = (cost.get("amount"), cost.get("currency"), cost.get("at_least"), idle, others)
    return [*seconds, row["energy_j"], *money]


def _print_table(report: Json) -> None:
    rows, total = report["rows"], report["total"]
    if rows:
        lead = [column for column in _lead(report["by"]) if column[0] != "UUID"]
        columns = [*lead, *_columns(report["by"], total)]
        last = {**total, "key": "TOTAL", "node": "TOTAL"}
        cells = [[cell(row) for _, cell in columns] for row in (*rows, last)]
        out(table([name for name, _ in columns], cells))
    for sentence in _sentences(report):
        note(sentence)


def _columns(by: str, total: Json) -> Iterator[tuple[str, Any]]:
    """Yield a name and a function from a row to a cell for each column that has values."""
    is_of_machines = by in {_NODE, _GPU}
    if total["gpu_seconds"]:
        yield "GPU-H", lambda row: _hours(row["gpu_seconds"])
        for use in _SHARES:
            if use in total["gpu_seconds"] and is_of_machines:
                yield f"{use.upper()}-H", lambda row, use=use: _hours_of(row["gpu_seconds"], use)
            elif use in total["gpu_seconds"]:
                yield use.upper(), lambda row, use=use: _share(row["gpu_seconds"], use)
    if total["vcpu_seconds"]:
        yield "VCPU-H", lambda row: _hours(row["vcpu_seconds"])
    if total["energy_j"] is not None:
        yield "KWH", lambda row: _kwh(row["energy_j"])
    yield "COST", _costs
    if any(cost["parts"].get(_IDLE) for cost in _all_costs(total)):
        yield "IDLE COST", _idle_costs
    if is_of_machines:
        yield "HELD BY", list_holders


def _hours(seconds: Mapping[str, float]) -> str:
    hours = sum(seconds.values()) / _HOUR_S
    return _number(hours) if hours else ""


def _hours_of(seconds: Mapping[str, float], use: str) -> str:
    return _hours({use: seconds[use]}) if use in seconds else ""


def _digits(value: float) -> int:
    """Return how many digits behind the point a number has in the table."""
    return next((digits for limit, digits in _DIGITS if value < limit), 0)


def _share(seconds: Mapping[str, float], use: str) -> str:
    held_s = sum(seconds.values())
    return f"{100 * seconds.get(use, 0.0) / held_s:.1f} %" if held_s else ""


def _kwh(joules: float | None) -> str:
    return "" if joules is None else _number(joules / _KWH_J)


def _number(value: float) -> str:
    return f"{value:,.{_digits(value)}f}" if value else "0"


def _all_costs(row: Json) -> Sequence[Json]:
    """Return the costs of a row in all currencies."""
    return [cost for cost in (row["cost"], *row["other_costs"]) if cost]


def _costs(row: Json) -> str:
    return " + ".join(map(_cost, _all_costs(row)))


def _cost(cost: Json) -> str:
    if cost["amount"] is None:
        return "no price"
    amount = f"{_number(cost['amount'])} {cost['currency']}"
    return f"at least {amount}" if cost["at_least"] else amount


def _idle_costs(row: Json) -> str:
    """Return the part of the costs for machines whose GPUs were idle."""
    return " + ".join(
        f"{_number(cost['parts'][_IDLE])} {cost['currency']}"
        for cost in _all_costs(row)
        if cost["parts"].get(_IDLE)
    )


def _sentences(report: Json) -> Iterator[str]:
    """Yield what the table leaves out: missing prices, their source, and the state of all GPUs."""
    cost = report["total"]["cost"] or {"lacking": [], "source": None}
    if cost["lacking"]:
        names = "; ".join(cost["lacking"])
        yield f"{names}: their cost is left out; set [prices] file in the server's config.toml"
    if cost["source"]:
        date = f" of {cost['date']}" if cost["date"] else ""
        yield f"costs by {cost['source']}{date}"
    if report["by"] in {_NODE, _GPU} and any(row["holders"] is None for row in report["rows"]):
        yield "the users of machines are listed for at most 62 days; choose fewer days"
    if report["left_out"]:
        yield f"{report['left_out']} more rows are part of the total; choose fewer days"
    states = report["fleet"]["gpu_seconds"] if report["fleet"] else {}
    if hours := sum(states.values()) / _HOUR_S:
        parts = ", ".join(
            f"{seconds / _HOUR_S / hours:.1%} {state}"
            for state, seconds in sorted(states.items(), key=lambda item: -item[1])
        )
        yield f"all GPUs, {hours:,.1f} hours: {parts}"
