"""Stores searches in files of lines, so that they need not run again.

A line is a header, a JSON object with the peer and its version, or a search of the peer in the
header above it, a JSON list in the order of ``FIELDS``.  A search has its best scores only where
they change: the numbers of the trials, and the scores.  The repository has the searches of all
peers in ``FOLDER``, because they do not depend on this repository's code.
"""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.tuning.runs import Cell, Run

FOLDER: Final = Path(__file__).with_name("peer_searches")
FIELDS: Final = (
    *("problem", "parallel", "trials", "seed"),
    *("changed_at", "scores", "cpu_s", "memory_mb"),
)


def read_runs(path: Path) -> Iterator[Run]:
    """Yield the searches in a file; none if there is no file."""
    header: dict[str, Any] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        if isinstance(entry, dict):
            header = entry
        else:
            yield _run(header["peer"], header["version"], dict(zip(FIELDS, entry, strict=True)))


def read_folder(folder: Path = FOLDER) -> list[Run]:
    """Return the searches in all files of a folder."""
    return [run for path in sorted(folder.glob("*.jsonl")) for run in read_runs(path)]


def append_run(path: Path, run: Run) -> None:
    """Add a search to a file, with a header if the last one is of another version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [_line(_entry(run))]
    if _last_header(path) != (run.peer, run.version):
        lines.insert(0, _line({"peer": run.peer, "version": run.version}))
    with path.open("a") as file:
        file.write("".join(lines))


def changes_of(best: Iterable[float]) -> tuple[list[int], list[float]]:
    """Return the trials, from 1, with another score than the trial before, and those scores."""
    trials: list[int] = []
    values: list[float] = []
    last = math.inf
    for number, score in enumerate(best, start=1):
        if score != last:
            trials.append(number)
            values.append(score)
            last = score
    return trials, values


def _entry(run: Run) -> list[Any]:
    trials, values = changes_of(run.best)
    cell = run.cell
    memory = None if run.memory_mb is None else round(run.memory_mb)
    where = [cell.problem, cell.parallel, cell.trials, cell.seed]
    return [*where, trials, values, round(run.cpu_s, 2), memory]


def _run(peer: str, version: str, fields: dict[str, Any]) -> Run:
    cell = Cell(**{key: fields[key] for key in ("problem", "parallel", "trials", "seed")})
    scores = dict(zip(fields["changed_at"], fields["scores"], strict=True))
    best = [math.inf]
    for number in range(1, cell.trials + 1):
        best.append(scores.get(number, best[-1]))
    return Run(
        peer=peer,
        version=version,
        cell=cell,
        best=tuple(best[1:]),
        cpu_s=fields["cpu_s"],
        memory_mb=fields["memory_mb"],
    )


def _last_header(path: Path) -> tuple[str, str] | None:
    lines = path.read_text().splitlines() if path.exists() else []
    headers = [json.loads(line) for line in lines if line.startswith("{")]
    return (headers[-1]["peer"], headers[-1]["version"]) if headers else None


def _line(entry: object) -> str:
    return json.dumps(entry, separators=(",", ":")) + "\n"
