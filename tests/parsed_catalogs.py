"""Parses the catalogs that each server reads at its start, for forks of the importing process."""

from trainshed.catalog.open import catalog_for
from trainshed.model.roles import Dialect

for _dialect in Dialect:
    catalog_for(_dialect, None, (), None)
