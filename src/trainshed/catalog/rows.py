"""Reads the catalog's data files; only this module has their paths."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

Row = dict[str, Any]


@cache
def table(name: str) -> Row:
    """Return a data file as a mapping.  Each process parses a file once, in a few milliseconds."""
    text = files("trainshed.catalog").joinpath("data", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def rows(name: str, key: str) -> list[Row]:
    """Return the rows of one array of tables, such as ``rows("zones", "snapshot")``."""
    array: list[Row] = table(name)[key]
    return array
