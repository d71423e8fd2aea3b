"""``trainshed reduction plan``: how many reducers, and what for."""

from collections.abc import Iterator
from dataclasses import asdict, fields
from math import isclose
from typing import Any, Final

from trainshed.cli.check.clusters import rulebook_of
from trainshed.cli.flags import Request
from trainshed.cli.terminal import answer, table
from trainshed.planning.reduction_forecast import ReductionForecast
from trainshed.planning.sizing import ReducerOption, ReducerPlan, plan
from trainshed.workbench.reduction_hosts import ExchangeHosts, Given, hosts_of

_MEGA: Final = 1e6
#: The length of a bar that stands for twice a ring: no exchange gains more.
_BAR_LENGTH: Final = 40
_GAIN_MAX: Final = 2.0


def run(request: Request) -> int:
    """Print the plan."""
    args = request.args
    given = Given(**{each.name: getattr(args, each.name) for each in fields(Given)})
    found = hosts_of(given, rulebook_of(args))
    made = plan(found.hosts, found.asked, args.gradient_mb * _MEGA)
    text = "\n".join([*_head(found), "", _table(made), "", *_remarks(found, made)])
    answer(args, _as_json(found, made), text)
    return 0


def _head(found: ExchangeHosts) -> Iterator[str]:
    hosts, price = found.hosts, found.price
    each = f"{hosts.worker_gbps:g} Gbit/s each"
    if not isclose(hosts.workers * hosts.worker_gbps, hosts.total_gbps):
        each = f"{hosts.worker_gbps:g} Gbit/s the slowest"
    yield f"workers   {found.workers}: {each}, {hosts.total_gbps:g} together"
    costs = ""
    if price:
        costs = (
            f", {price.usd_hour:.2f} USD an hour (Compute Engine's list of {price.date}, "
            f"{price.region}; approximate)"
        )
    kind = f"{found.reducer_type}: " if found.reducer_type else ""
    yield f"reducers  {kind}{hosts.reducer_gbps:g} Gbit/s each{costs}"


def _table(made: ReducerPlan) -> str:
    has_price = made.hosts.reducer_usd_hour is not None
    headers = ["REDUCERS", "GBIT/S", "SUM %", "MS", "TIMES A RING", *(["USD/HOUR"] * has_price), ""]
    return table(headers, (_row(made, each, has_price=has_price) for each in made.options))


def _row(made: ReducerPlan, each: ReducerOption, *, has_price: bool) -> list[str]:
    prices = [f"{each.usd_hour or 0:.2f}"] if has_price else []
    return [
        str(each.reducers),
        f"{each.total_gbps:g}",
        f"{100 * each.reducers_share:.0f}",
        _three_digits(1000 * each.seconds),
        f"{each.gain:.2f}",
        *prices,
        " ".join(
            filter(None, ["#" * round(_BAR_LENGTH * each.gain / _GAIN_MAX), _mark(made, each)])
        ),
    ]


def _three_digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"  # noqa: PLR2004 - and no exponent


def _mark(made: ReducerPlan, each: ReducerOption) -> str:
    marks = {"asked": made.asked, "enough": made.sufficient}
    return ", ".join(word for word, option in marks.items() if option == each)


def _remarks(found: ExchangeHosts, made: ReducerPlan) -> Iterator[str]:
    yield f"{_conclusion(found, made)}."
    size = f"{made.gradient_bytes / _MEGA:g} MB"
    yield f"MS is one exchange of {size}, SUM % what the reducers sum of it; workers sum the rest."
    if made.hosts.helps:
        least = f"{made.break_even} reducer{' is' if made.break_even == 1 else 's are'}"
        yield f"Where workers do not help to sum, {least} as fast as a ring."
    yield "Links alone are counted: it is less for small tensors, and on hosts that cannot keep up."


def _conclusion(found: ExchangeHosts, made: ReducerPlan) -> str:
    asked = found.asked or made.sufficient.reducers
    prediction = ReductionForecast(
        hosts=found.hosts, reducers=asked, machine_type=found.reducer_type
    )
    return prediction.sentence


def _as_json(found: ExchangeHosts, made: ReducerPlan) -> dict[str, Any]:
    hosts, price = found.hosts, found.price
    return {
        "workers": {
            "text": found.workers,
            "hosts": hosts.workers,
            "slowest_gbps": hosts.worker_gbps,
            "total_gbps": hosts.total_gbps,
        },
        "reducers": {
            "machine_type": found.reducer_type or None,
            "gbps": hosts.reducer_gbps,
            "price": asdict(price) if price else None,
        },
        "gradient_bytes": made.gradient_bytes,
        "asked": found.asked or None,
        "sufficient": made.sufficient.reducers,
        "break_even": made.break_even,
        "text": f"{_conclusion(found, made)}.",
        "options": [asdict(each) for each in made.options],
    }
