"""Records searches of peers in the repository: those that are missing, in order of their worth.

All problems have one seed before one has the next, so that a recording can end at any time.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness import tell
from benchmarks.tuning.peers import is_able
from benchmarks.tuning.pipes import PROGRAMS, PipeError
from benchmarks.tuning.problems import problem
from benchmarks.tuning.recorded import FOLDER, append_run, read_folder
from benchmarks.tuning.runs import Cell, run_search

#: The seeds of which both modes are recorded before the others.
FIRST_SEEDS = 3
INSTALL = "`make tuning-peers` installs the peers"

Todo = tuple[str, Cell]


def missing(peers: Sequence[str], cells: Sequence[Cell], folder: Path = FOLDER) -> list[Todo]:
    """Return the searches that are not recorded, the most valuable first."""
    done = {(run.peer, run.cell) for run in read_folder(folder)}
    order = sorted(cells, key=_round)
    rounds = sorted({_round(cell) for cell in cells})
    todo = [
        (name, cell)
        for own_round in rounds
        for name in peers
        for cell in order
        if _round(cell) == own_round and is_able(name, problem(cell.problem, cell.seed))
    ]
    return [search for search in todo if search not in done]


def record(todo: Sequence[Todo], minutes: float, folder: Path = FOLDER) -> Iterator[str]:
    """Run searches one after the other; yield a line for each that failed or was left out.

    A peer that is not installed has one line.  No search begins after ``minutes``.
    """
    ends = time.monotonic() + 60 * minutes
    absent = {name for name, _ in todo if not Path(PROGRAMS[name].python).exists()}
    for name in sorted(absent):
        yield f"{name} is not installed: {PROGRAMS[name].python} does not exist; {INSTALL}"
    able = [search for search in todo if search[0] not in absent]
    for done, (name, cell) in enumerate(able):
        if time.monotonic() > ends:
            yield f"{len(able) - done} searches of peers are left after {minutes:g} minutes"
            return
        began = time.monotonic()
        try:
            run = run_search(name, cell)
        except PipeError as error:
            yield f"{name} failed on {cell}: {error}"
            continue
        append_run(folder / f"{name}.jsonl", run)
        tell(f"{name} on {cell}: {run.best[-1]:g}, {time.monotonic() - began:.0f} s")


def _round(cell: Cell) -> tuple[bool, int, int, int]:
    """Return what is recorded together: a seed, a mode and a number of trials."""
    return cell.seed >= FIRST_SEEDS, cell.trials, cell.parallel, cell.seed
