"""Computes the price of a cluster's hour, by the catalog's list or by its owner's prices.

The owner's prices have priority, and currencies are not converted: if the owner's currency is not
the catalog's, machines without an owner's price have none.
"""

import math
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from trainshed.catalog.accelerators import known_accelerators
from trainshed.catalog.machines import accelerator_price_of, known_machines, price_of
from trainshed.model.faults import UsageFault
from trainshed.model.job import JobSpec, ReplicaGroup
from trainshed.planning.plan_request import PlanRequest

USD: Final = "USD"
_HOURS_A_YEAR: Final = 8766.0
_WATTS: Final = 1000.0
_PER_HOUR: Final = frozenset({"per_hour"})
_ENERGY: Final = frozenset({"watts", "per_kwh"})
_BOUGHT: Final = frozenset({"bought_for", "years"})
_COLUMNS: Final = _PER_HOUR | _ENERGY | _BOUGHT | {"spot_per_hour", "use"}
#: The limits of a price in any currency, and of other numbers in a row.
_LEAST, _MOST = 1e-9, 1e12
_CURRENCY_CHARS_MAX: Final = 16
_DAY_LENGTH: Final = len("2026-11-01")
_FORM: Final = "per_hour, or watts with per_kwh and bought_for with years"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Machines of one type with equal accelerators."""

    count: int
    machine_type: str
    accelerator: str = ""
    """Enum name; empty for none."""
    accelerators: int = 0


def machines_of(spec: JobSpec) -> Sequence[Machines]:
    """Return all machines of a job."""
    return [paid_for(group) for group in spec.groups]


def paid_for(group: ReplicaGroup) -> Machines:
    """Return the machines of a group of an expanded spec."""
    return Machines(
        count=group.count,
        machine_type=group.machine_type or "",
        accelerator=(group.accelerator and group.accelerator.type) or "",
        accelerators=(group.accelerator and group.accelerator.count) or 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HourPrice:
    """The price of an hour of all machines of a cluster."""

    amount: float
    currency: str
    dates: tuple[str, ...]
    """The dates of its price lists."""
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrices:
    """An owner's prices by machine type, accelerators included."""

    source: str
    currency: str
    date: str = ""
    per_hour: Mapping[str, float] = field(default_factory=dict)
    spot_per_hour: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """The sources of prices."""

    own: OwnPrices | None = None
    region: str | None = None
    spot: bool = False

    def of(self, cluster: Iterable[Machines]) -> HourPrice | None:
        """Return the price of an hour of all machines; None if one has no price."""
        hourly = []
        for machines in cluster:
            if machines.count:
                if (price := self._of(machines)) is None:
                    return None
                hourly.append(price)
        if not hourly:
            return None
        return HourPrice(
            amount=sum(price.amount for price in hourly),
            currency=hourly[0].currency,
            dates=tuple(sorted({date for price in hourly for date in price.dates if date})),
            sources=tuple(dict.fromkeys(source for price in hourly for source in price.sources)),
        )

    def lacking(self, cluster: Iterable[Machines]) -> Iterator[str]:
        """Yield a sentence for each machine type without a price."""
        for machines in cluster:
            if machines.count and self._of(machines) is None:
                name, own = machines.machine_type, self.own
                if self.spot and own and name in own.per_hour:
                    yield f"no spot_per_hour of {name} is in {own.source}"
                else:
                    yield f"no price of {name} is known" if name else "no price is known"

    def _of(self, machines: Machines) -> HourPrice | None:
        own = self.own
        if own:
            rates = own.spot_per_hour if self.spot else own.per_hour
            if (amount := rates.get(machines.machine_type)) is not None:
                return HourPrice(
                    amount=machines.count * amount,
                    currency=own.currency,
                    dates=(own.date,),
                    sources=(own.source,),
                )
            if own.currency != USD:
                return None
        return self._of_catalog(machines)

    def _of_catalog(self, machines: Machines) -> HourPrice | None:
        # hosts without a name have no price: the tables take a tenth of a plan's time to read
        name = machines.machine_type
        price = price_of(name, self.region, spot=self.spot) if name else None
        if price is None:
            return None
        amount, dates = price.usd_hour, [price.date]
        if _is_attached(machines):
            accelerator = accelerator_price_of(_short_name(machines.accelerator), spot=self.spot)
            if accelerator is None:
                return None
            amount += machines.accelerators * accelerator.usd_hour
            dates.append(accelerator.date)
        return HourPrice(
            amount=machines.count * amount,
            currency=USD,
            dates=tuple(dates),
            sources=(f"Compute Engine's list of {price.region}, approximate",),
        )


def _is_attached(machines: Machines) -> bool:
    machine = known_machines().get(machines.machine_type)
    return bool(machines.accelerators) and not (machine and machine.bundled)


def _short_name(enum_name: str) -> str:
    names = (a.name for a in known_accelerators() if enum_name in a.enum_by_product.values())
    return next(names, enum_name)


def delay_factor(request: PlanRequest, machines: int) -> float:
    """Return how many times as long a job takes on spot machines; infinite if it would never end.

    1 on other machines.  An interruption loses half of the time between two checkpoints on average.
    """
    lost_s = request.checkpoint_every / 2 + request.restart
    share = machines * (request.spot or 0.0) * lost_s / 3600
    return 1 / (1 - share) if share < 1 else math.inf


def own_prices(text: str, source: str) -> OwnPrices:
    """Read the prices of a file.  Raises UsageFault with the field at fault."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageFault(f"{source} is not valid TOML: {error}") from None
    except ValueError:  # the limit of Python for whole numbers
        raise UsageFault(f"{source} is not valid TOML: a number has too many digits") from None
    _only(document, {"currency", "date", "machine"}, source)
    currency = _currency(document, source)
    rows = document.get("machine")
    if not isinstance(rows, list) or not rows:
        raise UsageFault(f"{source}: [[machine]] is missing; each needs a name, and {_FORM}")
    rates = [_row(row, number, currency, source) for number, row in enumerate(rows, 1)]
    return OwnPrices(
        source=source,
        currency=currency,
        date=_day(document.get("date"), source),
        per_hour=_by_name(((name, hour) for name, hour, _ in rates), source),
        spot_per_hour={name: spot for name, _, spot in rates if spot is not None},
    )


def _currency(document: Mapping[str, Any], source: str) -> str:
    currency, accepted = document.get("currency"), "a name such as USD or EUR"
    if currency is None:
        raise UsageFault(f"{source}: currency is missing; it must be {accepted}")
    is_name = isinstance(currency, str) and currency.isalpha()
    if not is_name or len(currency) > _CURRENCY_CHARS_MAX:
        raise UsageFault(f"{source}: currency must be {accepted}, got {currency!r}")
    return str(currency)


def _day(value: Any, source: str) -> str:
    """Return the date of the prices, a TOML date or a text; empty if none is given."""
    if value is None:
        return ""
    with suppress(ValueError):
        return date.fromisoformat(f"{value}"[:_DAY_LENGTH]).isoformat()
    raise UsageFault(f"{source}: date must be a day such as 2026-11-01, got {value!r}")


def _by_name(rows: Iterable[tuple[str, float]], source: str) -> dict[str, float]:
    prices: dict[str, float] = {}
    for name, value in rows:
        if name in prices:
            raise UsageFault(f"{source}: machine {name} is given twice; remove one")
        prices[name] = value
    return prices


def _row(row: Any, number: int, currency: str, source: str) -> tuple[str, float, float | None]:
    name = row.get("name") if isinstance(row, dict) else None
    if not isinstance(name, str) or not name:
        raise UsageFault(f"{source}: machine {number} has no name; it must be a machine type")
    row_name = f"{source}: machine {name}"
    if row.get("currency", currency) != currency:
        raise UsageFault(
            f"{row_name}: currency must be {currency}, as in the whole file, got {row['currency']}"
        )
    _only(row, _COLUMNS | {"name", "currency"}, row_name)
    values = {
        column: _positive(row[column], f"{row_name}: {column}") for column in _COLUMNS & set(row)
    }
    return name, _hour(values, row_name), values.get("spot_per_hour")


def _hour(values: Mapping[str, float], where: str) -> float:
    """Return the price of an hour: the rent, or energy and depreciation."""
    columns = set(values) - {"spot_per_hour"}
    if columns == _PER_HOUR:
        return values["per_hour"]
    parts = [part for part in (_ENERGY, _BOUGHT) if part & columns]
    is_whole = columns - {"use"} == frozenset().union(*parts)
    if not parts or not is_whole or ("use" in columns and _BOUGHT not in parts):
        names = ", ".join(sorted(columns)) or "no price"
        raise UsageFault(f"{where} must have {_FORM}, got {names}")
    if (use := values.get("use", 1.0)) > 1:
        raise UsageFault(f"{where}: use must be a share of hours up to 1, got {use:g}")
    amount = 0.0
    if _ENERGY in parts:
        amount += values["watts"] / _WATTS * values["per_kwh"]
    if _BOUGHT in parts:
        amount += values["bought_for"] / (values["years"] * _HOURS_A_YEAR * use)
    return amount


def _positive(value: Any, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value > 0:
        raise UsageFault(f"{where} must be a number above 0, got {value!r}")
    if not _LEAST <= value <= _MOST:
        raise UsageFault(
            f"{where} must be from {_LEAST:g} to {_MOST:g}, got {_format_number(value)}"
        )
    return float(value)


def _format_number(value: float) -> str:
    """Format a number; a whole number too large for a float becomes ``infinity``."""
    return f"{value:g}" if abs(value) <= sys.float_info.max else "infinity"


def _only(table: Mapping[str, Any], columns: Iterable[str], where: str) -> None:
    if unknown := sorted(set(table) - set(columns)):
        accepted = ", ".join(sorted(columns))
        raise UsageFault(f"{where} has an unknown key {unknown[0]!r}; accepted: {accepted}")
