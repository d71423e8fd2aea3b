"""Reads the data files; only this module has their paths."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

Row = dict[str, Any]


@cache
def table(name: str) -> Row:
    """One data file as a mapping; parsed once a process (a few milliseconds each)."""
    text = files("trainshed.catalog").joinpath("data", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def rows(name: str, key: str) -> list[Row]:
    """The rows of one array of tables, such as ``rows("zones", "snapshot")``."""
    array: list[Row] = table(name)[key]
    return array
