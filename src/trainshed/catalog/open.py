"""Opens the catalog of an edition, with the rows that a user adds in files."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from trainshed.catalog import Catalog, UnknownEdition, load
from trainshed.catalog.editions import PRODUCT_OF_DIALECT, newest_edition
from trainshed.catalog.regions import UnknownSnapshot
from trainshed.model.faults import UsageFault
from trainshed.model.roles import Dialect


def catalog_for(
    dialect: Dialect, edition: str | None, overlays: tuple[Path, ...], zone_snapshot: str | None
) -> Catalog:
    """Return the catalog of an edition, by default the newest of the dialect.

    Raises UsageFault for a name that does not exist and for an edition of the other product.
    """
    newest = newest_edition(dialect).id
    catalog = load_catalog(edition or newest, overlays, zone_snapshot)
    product = PRODUCT_OF_DIALECT[dialect]
    if catalog.product is not product:
        raise UsageFault(
            f"edition {edition} is of product {catalog.product.value}, and the job is written for "
            f"{product.value}, whose newest edition is {newest}"
        )
    return catalog


@cache
def load_catalog(edition: str, overlays: tuple[Path, ...], zone_snapshot: str | None) -> Catalog:
    """Return a catalog by the edition's id or alias.  Raises UsageFault for an unknown name."""
    try:
        rows = [read_overlay(path) for path in overlays]
        return load(edition, overlays=rows, zone_snapshot=zone_snapshot)
    except (UnknownEdition, UnknownSnapshot) as error:
        raise UsageFault(str(error)) from error


def read_overlay(path: Path) -> dict[str, Any]:
    """Return the rows of an overlay file.  Raises UsageFault if the file is not readable TOML."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageFault(f"cannot read the catalog overlay {path}: {error}") from error
