"""Stores searches of the tuning benchmark in a file, so that a long run can be continued."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.tuning.runs import Cell, Run

Todo = tuple[str, Cell, int]


def read_runs(path: Path | None) -> Iterator[Run]:
    """Yield the searches in the file; none if there is no file."""
    if path is None or not path.exists():
        return
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        best = tuple(math.inf if value is None else value for value in fields["best"])
        yield Run(**fields | {"cell": Cell(**fields["cell"]), "best": best})


def keep(path: Path | None, run: Run) -> None:
    """Add a search to the file, if there is a path."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    best = [value if math.isfinite(value) else None for value in run.best]
    with path.open("a") as file:
        file.write(json.dumps(asdict(run) | {"best": best}) + "\n")


def split(todo: list[Todo], path: Path | None) -> tuple[list[Run], list[Todo]]:
    """Return the results that the file already has, and the searches that are still to run."""
    searches = set(todo)
    runs = [run for run in read_runs(path) if (run.peer, run.cell, len(run.best)) in searches]
    done = {(run.peer, run.cell, len(run.best)) for run in runs}
    return runs, [search for search in todo if search not in done]
