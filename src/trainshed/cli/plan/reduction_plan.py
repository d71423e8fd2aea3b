"""``trainshed reduction plan``: computes how many reducers a job needs, and their gain."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from math import isclose, nan
from typing import TYPE_CHECKING, Any, Final

from trainshed.cli import flag_values, flags
from trainshed.cli.check.clusters import rulebook_of
from trainshed.cli.terminal import print_result, table

if TYPE_CHECKING:
    from trainshed.planning.sizing import ReducerOption, ReducerPlan
    from trainshed.workbench.reduction_hosts import ExchangeHosts

_MEGA: Final = 1e6
#: The length of a bar for the largest possible gain, twice the speed of a ring.
_BAR_LENGTH: Final = 40
_GAIN_MAX: Final = 2.0
#: Limits of rates and sizes: wider than any network needs, and safe to compute with.
RATE_MIN, RATE_MAX = 1e-3, 1e6
#: Google's advice for the buckets of DistributedDataParallel (reduction_server.toml, tuning).
GRADIENT_MB: Final = 64.0

EXAMPLE = """\
  trainshed reduction plan --config job.yaml --reducer-count 8
  trainshed reduction plan --worker-machine-type n1-highmem-96 --worker-count 5 \\
      --worker-accelerator count=8,type=nvidia-tesla-v100 --reducer-count 8
  trainshed reduction plan --worker-count 8 --worker-gbps 10 --reducer-gbps 25 --format json"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Computes how many reducers match a job's workers, and how much faster than a ring "
        "this and smaller numbers make the exchange of gradients.",
        example=EXAMPLE,
    )
    add = flags.adder(parser)
    add("--config FILE", "Job file, either dialect; flags override it")
    add(
        "--gradient-mb MB",
        "Size of one exchange, in 1,000,000 bytes; default: 64",
        type=_rate,
        default=GRADIENT_MB,
    )
    add("--region REGION", "Region whose prices are shown")
    _add_workers(parser)
    _add_reducers(parser)
    flags.add_format(parser)
    flags.add_catalog_flags(parser)
    return parser


def _add_workers(parser: argparse.ArgumentParser) -> None:
    add = flags.adder(parser.add_argument_group("worker hosts; these flags override the file"))
    add("--worker-machine-type TYPE", "Machine type of each host")
    add(
        "--worker-count N", "Number of hosts, including the chief", type=flag_values.whole_number(1)
    )
    add(
        "--worker-accelerator count=N,type=TYPE",
        "Accelerators of each host, such as count=8,type=nvidia-tesla-v100",
    )
    add("--worker-gbps GBIT/S", "Link rate of each host; default: from the catalog", type=_rate)


def _add_reducers(parser: argparse.ArgumentParser) -> None:
    add = flags.adder(parser.add_argument_group("reducers; these flags override the file"))
    add("--reducer-machine-type TYPE", "Machine type; default: n1-highcpu-16")
    add("--reducer-count N", "Number of reducers to compare", type=flag_values.whole_number(1))
    add("--reducer-gbps GBIT/S", "Link rate of each host; default: from the catalog", type=_rate)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = nan
    if not RATE_MIN <= rate <= RATE_MAX:
        raise argparse.ArgumentTypeError(
            f"must be a number from {RATE_MIN:g} to {RATE_MAX:,.0f}, got {text!r}"
        )
    return rate


def run(request: flags.Request) -> int:
    """Print the plan."""
    from trainshed.planning.sizing import plan
    from trainshed.workbench.reduction_hosts import Given, hosts_of

    args = request.args
    exchange = hosts_of(flags.to_dataclass(Given, args), rulebook_of(args))
    reducer_plan = plan(exchange.hosts, exchange.reducer_count, args.gradient_mb * _MEGA)
    text = "\n".join(
        [*_head(exchange), "", _table(reducer_plan), "", *_remarks(exchange, reducer_plan)]
    )
    print_result(args.format, _as_json(exchange, reducer_plan), text)
    return 0


def _head(exchange: "ExchangeHosts") -> Iterator[str]:
    hosts, price = exchange.hosts, exchange.price
    speed = f"{hosts.worker_gbps:g} Gbit/s each"
    if not isclose(hosts.workers * hosts.worker_gbps, hosts.total_gbps):
        speed = f"slowest link {hosts.worker_gbps:g} Gbit/s"
    yield f"workers   {exchange.workers}: {speed}, {hosts.total_gbps:g} together"
    costs = ""
    if price:
        costs = (
            f", {price.usd_hour:.2f} USD an hour (Compute Engine's list of {price.date}, "
            f"{price.region}; approximate)"
        )
    kind = f"{exchange.reducer_type}: " if exchange.reducer_type else ""
    yield f"reducers  {kind}{hosts.reducer_gbps:g} Gbit/s each{costs}"


def _table(reducer_plan: "ReducerPlan") -> str:
    has_price = reducer_plan.hosts.reducer_usd_hour is not None
    headers = ["REDUCERS", "GBIT/S", "SUM %", "MS", "TIMES A RING", *(["USD/HOUR"] * has_price), ""]
    return table(
        headers,
        (_row(reducer_plan, option, has_price=has_price) for option in reducer_plan.options),
    )


def _row(reducer_plan: "ReducerPlan", option: "ReducerOption", *, has_price: bool) -> list[str]:
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
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"  # noqa: PLR2004 - without an exponent


def _mark(reducer_plan: "ReducerPlan", option: "ReducerOption") -> str:
    marks = {"requested": reducer_plan.requested, "enough": reducer_plan.sufficient}
    return ", ".join(word for word, marked in marks.items() if marked == option)


def _remarks(exchange: "ExchangeHosts", reducer_plan: "ReducerPlan") -> Iterator[str]:
    yield f"{_conclusion(exchange, reducer_plan)}."
    size = f"{reducer_plan.gradient_bytes / _MEGA:g} MB"
    yield (
        f"MS is the time of one exchange of {size}, SUM % the share that the reducers sum; "
        "workers sum the rest."
    )
    if reducer_plan.hosts.helps:
        least = (
            f"{reducer_plan.break_even} reducer{' is' if reducer_plan.break_even == 1 else 's are'}"
        )
        yield f"If workers do not help to sum, {least} as fast as a ring."
    yield "Only links are counted: the gain is less for small tensors and on slow hosts."


def _conclusion(exchange: "ExchangeHosts", reducer_plan: "ReducerPlan") -> str:
    from trainshed.planning.reduction_forecast import ReductionForecast

    reducer_count = exchange.reducer_count or reducer_plan.sufficient.reducers
    prediction = ReductionForecast(
        hosts=exchange.hosts, reducers=reducer_count, machine_type=exchange.reducer_type
    )
    return prediction.sentence


def _as_json(exchange: "ExchangeHosts", reducer_plan: "ReducerPlan") -> dict[str, Any]:
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
