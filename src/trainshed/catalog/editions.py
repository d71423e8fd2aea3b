"""The dated versions of the catalog, and the products that they describe."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

from trainshed.catalog.rows import rows
from trainshed.model.roles import Dialect


class Product(enum.Enum):
    """The product that an edition describes."""

    ML = "ml"
    VERTEX = "vertex"


PRODUCT_OF_DIALECT: Mapping[Dialect, Product] = {
    Dialect.ML_V1: Product.ML,
    Dialect.AIPLATFORM_V1: Product.VERTEX,
}


class UnknownEdition(LookupError):
    """No edition has this name; the message lists those that exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edition:
    """One dated version.  ``accelerators`` is None where the edition lists them by region."""

    id: str
    aliases: tuple[str, ...]
    product: Product
    document: str
    date: date
    machine_categories: frozenset[str]
    accelerators: frozenset[str] | None
    evaluators: bool
    region_types_known: bool
    zone_snapshot: str | None


@cache
def editions() -> tuple[Edition, ...]:
    """Return all editions, oldest first."""
    return tuple(
        Edition(
            id=row["id"],
            aliases=tuple(row["aliases"]),
            product=Product(row["product"]),
            document=row["document"],
            date=date.fromisoformat(row["date"]),
            machine_categories=frozenset(row["machine_categories"]),
            accelerators=frozenset(row["accelerators"]) if "accelerators" in row else None,
            evaluators=row["evaluators"],
            region_types_known=row["region_types_known"],
            zone_snapshot=row["zone_snapshot"] or None,
        )
        for row in rows("editions", "edition")
    )


def edition_named(name: str) -> Edition:
    """Return the edition with this id or alias.  Raises UnknownEdition."""
    for edition in editions():
        if name == edition.id or name in edition.aliases:
            return edition
    names = ", ".join(f"{e.id} ({e.aliases[0]})" for e in editions())
    raise UnknownEdition(f"there is no catalog edition {name!r}; the editions are {names}")


def newest_edition(dialect: Dialect) -> Edition:
    """Return the edition that checks use by default."""
    product = PRODUCT_OF_DIALECT[dialect]
    return [e for e in editions() if e.product is product][-1]
