"""Parses what each server reads at its start: forks of the process that imports this have it."""

from trainshed.catalog.open import catalog_for
from trainshed.model.roles import Dialect

for _dialect in Dialect:
    catalog_for(_dialect, None, (), None)
