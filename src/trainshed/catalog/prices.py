"""What machines cost: Compute Engine's list prices of one day, where prices.toml has them."""

from dataclasses import dataclass
from functools import cache

from trainshed.catalog.rows import rows, table

#: The region whose list has most machine types; its prices stand in for those of other regions.
US = "us-central1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """An approximate price.  Vertex's management fee is not in it (prices.toml, note)."""

    usd_hour: float
    """On demand."""
    region: str
    """Whose price it is."""
    date: str


def price_of(machine_type: str, region: str | None) -> Price | None:
    """The price in a region, or in us-central1 where that is not known; None for neither."""
    for place in dict.fromkeys((region or US, US)):
        if (usd_hour := _by_place().get((machine_type, place))) is not None:
            date = table("prices")["machine_price_date"]
            return Price(usd_hour=usd_hour, region=place, date=date)
    return None


@cache
def _by_place() -> dict[tuple[str, str], float]:
    return {
        (row["machine"], row["region"]): row["on_demand_usd_hour"]
        for row in rows("prices", "machine")
        if "on_demand_usd_hour" in row
    }
