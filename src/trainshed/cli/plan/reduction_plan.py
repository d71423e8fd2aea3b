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
    inputs = Given(**{field.name: getattr(args, field.name) for field in fields(Given)})
    exchange = hosts_of(inputs, rulebook_of(args))
    reducer_plan = plan(exchange.hosts, exchange.reducer_count, args.gradient_mb * _MEGA)
    text = "\n".join(
        [*_head(exchange), "", _table(reducer_plan), "", *_remarks(exchange, reducer_plan)]
    )
    answer(args.format, _as_json(exchange, reducer_plan), text)
    return 0


def _head(exchange: ExchangeHosts) -> Iterator[str]:
    hosts, price = exchange.hosts, exchange.price
    speed = f"{hosts.worker_gbps:g} Gbit/s each"
    if not isclose(hosts.workers * hosts.worker_gbps, hosts.total_gbps):
        speed = f"{hosts.worker_gbps:g} Gbit/s the slowest"
    yield f"workers   {exchange.workers}: {speed}, {hosts.total_gbps:g} together"
    costs = ""
    if price:
        costs = (
            f", {price.usd_hour:.2f} USD an hour (Compute Engine's list of {price.date}, "
            f"{price.region}; approximate)"
        )
    kind = f"{exchange.reducer_type}: " if exchange.reducer_type else ""
    yield f"reducers  {kind}{hosts.reducer_gbps:g} Gbit/s each{costs}"


def _table(reducer_plan: ReducerPlan) -> str:
    has_price = reducer_plan.hosts.reducer_usd_hour is not None
    headers = ["REDUCERS", "GBIT/S", "SUM %", "MS", "TIMES A RING", *(["USD/HOUR"] * has_price), ""]
    return table(
        headers,
        (_row(reducer_plan, option, has_price=has_price) for option in reducer_plan.options),
    )


def _row(reducer_plan: ReducerPlan, option: ReducerOption, *, has_price: bool) -> list[str]:
    prices = [f"{option.usd_hour or 0:.2f}"] if has_price else []
    return [
        str(option.reducers),
        f"{option.total_gbps:g}",
        f"{100 * option.reducers_share:.0f}",
        _three_digits(1000 * option.seconds),
        f"{option.gain:.2f}",
        *prices,
        " ".join(
            filter(
                None,
                ["#" * round(_BAR_LENGTH * option.gain / _GAIN_MAX), _mark(reducer_plan, option)],
            )
        ),
    ]


def _three_digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"  # noqa: PLR2004 - and no exponent


def _mark(reducer_plan: ReducerPlan, option: ReducerOption) -> str:
    marks = {"asked": reducer_plan.requested, "enough": reducer_plan.sufficient}
    return ", ".join(word for word, marked in marks.items() if marked == option)


def _remarks(exchange: ExchangeHosts, reducer_plan: ReducerPlan) -> Iterator[str]:
    yield f"{_conclusion(exchange, reducer_plan)}."
    size = f"{reducer_plan.gradient_bytes / _MEGA:g} MB"
    yield f"MS is one exchange of {size}, SUM % what the reducers sum of it; workers sum the rest."
    if reducer_plan.hosts.helps:
        least = (
            f"{reducer_plan.break_even} reducer{' is' if reducer_plan.break_even == 1 else 's are'}"
        )
        yield f"Where workers do not help to sum, {least} as fast as a ring."
    yield "Links alone are counted: it is less for small tensors, and on hosts that cannot keep up."


def _conclusion(exchange: ExchangeHosts, reducer_plan: ReducerPlan) -> str:
    reducer_count = exchange.reducer_count or reducer_plan.sufficient.reducers
    prediction = ReductionForecast(
        hosts=exchange.hosts, reducers=reducer_count, machine_type=exchange.reducer_type
    )
    return prediction.sentence


def _as_json(exchange: ExchangeHosts, reducer_plan: ReducerPlan) -> dict[str, Any]:
    hosts, price = exchange.hosts, exchange.price
    return {
        "workers": {
            "text": exchange.workers,
            "hosts": hosts.workers,
            "slowest_gbps": hosts.worker_gbps,
            "total_gbps": hosts.total_gbps,
        },
        "reducers": {
            "machine_type": exchange.reducer_type or None,
            "gbps": hosts.reducer_gbps,
            "price": asdict(price) if price else None,
        },
        "gradient_bytes": reducer_plan.gradient_bytes,
        "asked": exchange.reducer_count or None,
        "sufficient": reducer_plan.sufficient.reducers,
        "break_even": reducer_plan.break_even,
        "text": f"{_conclusion(exchange, reducer_plan)}.",
        "options": [asdict(option) for option in reducer_plan.options],
    }
