"""What is known of a training before anything of it was measured: defaults, and how sure they are.

They were fitted to published measurements (``benchmarks/scaling/``) by ``scripts/fit_scaling.py``,
which writes the file read here.  Shares are of nominal rates: nobody gets what a data sheet says.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The fit of the published measurements."""

    date: str
    defaults: Mapping[str, float]
    priors: Mapping[str, float]
    """Widths, of logarithms."""


@cache
def parameters() -> Parameters:
    """The fit that came with this release."""
    text = files("trainshed.planning").joinpath("data", "scaling_fit.toml").read_text("utf-8")
    return parameters_from(tomllib.loads(text))


def parameters_from(document: Mapping[str, object]) -> Parameters:
    """The fit of a document.  Raises ValueError for one of another schema."""
    if document.get("schema") != SCHEMA:
        raise ValueError(f"parameters of schema {document.get('schema')}: {SCHEMA} is read")
    return Parameters(
        date=str(document["date"]),
        defaults=_numbers(document["defaults"]),
        priors=_numbers(document["priors"]),
    )


def _numbers(table: object) -> dict[str, float]:
    if not isinstance(table, Mapping):
        raise ValueError(f"a table of numbers is expected, not {table!r}")  # noqa: TRY004 - a file's
    return {str(name): float(value) for name, value in table.items()}
