"""Defaults of an unmeasured training, and their uncertainty.

They were fitted to published measurements (``benchmarks/scaling/``) by ``scripts/fit_scaling.py``,
which writes the file that this module reads.  Shares are of nominal rates, which software does not
reach.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The fit of the published measurements."""

    date: str
    defaults: Mapping[str, float]
    priors: Mapping[str, float]
    """The prior standard deviations, of logarithms."""
    reach: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """For each ``reach.Extrapolation``, the spreads below and above that hold 80 of 100 values."""
    unprinted: Mapping[str, float] = field(default_factory=dict)
    """For benchmarks: the seconds of the first step of published curves without a batch."""


@cache
def parameters() -> Parameters:
    """Return the fit of this release."""
    text = files("trainshed.planning").joinpath("data", "scaling_fit.toml").read_text("utf-8")
    return parameters_from(tomllib.loads(text))


def parameters_from(document: Mapping[str, Any]) -> Parameters:
    """Return the fit of a document.  Raises ValueError for another schema."""
    if document.get("schema") != SCHEMA:
        raise ValueError(f"the schema of parameters must be {SCHEMA}, got {document.get('schema')}")
    return Parameters(
        date=str(document["date"]),
        defaults=document["defaults"],
        priors=document["priors"],
        reach={name: (low, high) for name, (low, high) in document.get("reach", {}).items()},
        unprinted=document.get("unprinted", {}),
    )
