"""The machine types, accelerators, regions, zones, tiers, runtimes, images and quotas that exist.

The facts are TOML rows with sources and dates (``data/``); the modules of this package turn them
into values for rules.  A ``Catalog`` has the facts of one edition.
"""

from trainshed.catalog.catalog import Catalog
from trainshed.catalog.editions import (
    Edition,
    Product,
    UnknownEdition,
    editions,
    newest_edition,
)
from trainshed.catalog.load import load

__all__ = ["Catalog", "Edition", "Product", "UnknownEdition", "editions", "load", "newest_edition"]
