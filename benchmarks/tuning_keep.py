"""Searches of the tuning benchmark that are kept in a file, so that an hour's work can be split."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tuning_runs import Cell, Run

Todo = tuple[str, Cell, int]


def kept(path: Path | None) -> Iterator[Run]:
    """What the file has."""
    if path is None or not path.exists():
        return
    for line in path.read_text().splitlines():
        found = json.loads(line)
        best = tuple(math.inf if value is None else value for value in found["best"])
        yield Run(**found | {"cell": Cell(**found["cell"]), "best": best})


def keep(path: Path | None, run: Run) -> None:
    """Add one."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    best = [value if math.isfinite(value) else None for value in run.best]
    with path.open("a") as file:
        file.write(json.dumps(asdict(run) | {"best": best}) + "\n")


def split(todo: list[Todo], path: Path | None) -> tuple[list[Run], list[Todo]]:
    """What was searched before, and what is left to search."""
    asked = set(todo)
    found = [run for run in kept(path) if (run.peer, run.cell, len(run.best)) in asked]
    done = {(run.peer, run.cell, len(run.best)) for run in found}
    return found, [each for each in todo if each not in done]
