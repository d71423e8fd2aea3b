"""Prints the comparison of searches, by class and by problem, and judges its goals."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from benchmarks.harness import Goal, at_most
from benchmarks.tuning.peers import OURS, RANDOM
from benchmarks.tuning.problems import CLASSES
from benchmarks.tuning.regrets import Difference, Regrets
from benchmarks.tuning.runs import Cell, Run

#: The numbers of trials after which medians are printed.
AFTER: Final = (10, 20, 40, 100)
#: The number of trials after which no problem should be worse than random points.
EARLY: Final = 20
#: A peer with fewer common searches is printed, and not judged.
PAIRS_MIN: Final = 3


def mode_of(cell: Cell) -> str:
    """Return the mode of a cell in words."""
    return "one at a time" if cell.parallel == 1 else f"{cell.parallel} in parallel"


def blocks(table: Regrets, runs: Sequence[Run], *, by_problem: bool) -> Iterator[str]:
    """Yield the lines of each class, of all classes, and of each problem if wanted."""
    for trials, mode in _settings(table):
        inside = _inside(table, trials, mode)
        costs = _costs([run for run in runs if run.cell in inside.by_peer.get(run.peer, {})])
        yield f"\n{trials} trials, {mode}"
        yield _header(trials)
        for label, part in _parts(inside, by_problem=by_problem):
            yield from _block(label, part, trials, costs)


def rank_goals(table: Regrets) -> Iterator[Goal]:
    """Yield a goal for each class and mode: our mean rank minus that of the best peer."""
    for trials, mode in _settings(table):
        inside = _inside(table, trials, mode)
        for label, part in _parts(inside, by_problem=False):
            ranks = {
                name: rank
                for name, rank in part.ranks.items()
                if name != OURS and len(part.pairs(OURS, name)) >= PAIRS_MIN
            }
            if ranks:
                best = min(ranks, key=ranks.__getitem__)
                own = part.ranks[OURS]
                name = f"rank in {label}, {mode}, {trials} trials, over the best peer's"
                note = f"{own:.2f}, {best} {ranks[best]:.2f}"
                yield at_most(name, own - ranks[best], 0.0, "", note)


def random_goals(table: Regrets) -> Iterator[Goal]:
    """Yield the problems where our median after ``EARLY`` trials is worse than that of random."""
    for trials, mode in _settings(table):
        inside = _inside(table, trials, mode)
        if trials < EARLY or RANDOM not in inside.by_peer:
            continue
        ratios = {}
        for problem in sorted({cell.problem for cell in inside.by_peer[OURS]}):
            part = _of_problems(inside, (problem,))
            if RANDOM in part.by_peer:
                ratios[problem] = part.median(OURS, EARLY) / part.median(RANDOM, EARLY)
        highest = max(ratios, key=ratios.__getitem__)
        for problem, ratio in ratios.items():
            if ratio > 1 or problem == highest:
                name = f"{problem}, {mode}: regret after {EARLY} of {trials}, over random's"
                yield at_most(name, ratio, 1.0, "times")


def _settings(table: Regrets) -> list[tuple[int, str]]:
    return sorted({(cell.trials, mode_of(cell)) for cell in table.by_peer[OURS]}, reverse=True)


def _inside(table: Regrets, trials: int, mode: str) -> Regrets:
    return table.where(lambda cell: cell.trials == trials and mode_of(cell) == mode)


def _parts(table: Regrets, *, by_problem: bool) -> Iterator[tuple[str, Regrets]]:
    names = {cell.problem for cell in table.by_peer.get(OURS, {})}
    classes = [word for word, members in CLASSES.items() if names & set(members)]
    for word in classes:
        yield word, _of_problems(table, CLASSES[word])
    yield "all", table
    if by_problem:
        for name in (name for word in classes for name in CLASSES[word] if name in names):
            yield name, _of_problems(table, (name,))


def _of_problems(table: Regrets, names: Sequence[str]) -> Regrets:
    return table.where(lambda cell: cell.problem in names)


def _header(trials: int) -> str:
    medians = "".join(f"{f'at {after}':>10}" for after in AFTER if after <= trials)
    end = f"{'area':>8}{'ms/sugg.':>10}{'MB':>6}{'searches':>10}  ours / peer's, interval (pairs)"
    return f"{'':18}{'rank':>6}{medians}{end}"


def _block(
    label: str, part: Regrets, trials: int, costs: Mapping[str, tuple[float, float | None]]
) -> Iterator[str]:
    """Yield a line for each peer, the best rank first."""
    yield label
    for name in sorted(part.by_peer, key=lambda name: part.ranks.get(name, math.inf)):
        rank = f"{part.ranks[name]:6.2f}" if name in part.ranks else f"{'-':>6}"
        points = [after for after in AFTER if after <= trials]
        medians = "".join(f"{part.median(name, after):10.1e}" for after in points)
        cpu_ms, memory_mb = costs[name]
        memory = "-" if memory_mb is None else f"{memory_mb:.0f}"
        costs_text = f"{cpu_ms:10.0f}{memory:>6}{len(part.by_peer[name]):10}"
        ratio = "" if name == OURS else _ratio(part.difference(OURS, name))
        area = f"{part.area(name):8.2f}"
        yield f"  {name:16}{rank}{medians}{area}{costs_text}  {ratio}"


def _ratio(difference: Difference | None) -> str:
    """Return the geometric mean of the ratios of regrets, which is below 1 if ours is better."""
    if difference is None:
        return ""
    low, middle, high = (10**x for x in (difference.low, difference.mean, difference.high))
    return f"{middle:.2f}  {low:.2f} to {high:.2f} ({difference.pairs})"


def _costs(runs: Sequence[Run]) -> dict[str, tuple[float, float | None]]:
    """Return the processor time of a suggestion in ms and the peak memory of each peer: medians."""
    costs = {}
    for name in {run.peer for run in runs}:
        own = [run for run in runs if run.peer == name]
        memory = [run.memory_mb for run in own if run.memory_mb is not None]
        cpu_ms = median(1000 * run.cpu_s / run.cell.trials for run in own)
        costs[name] = (cpu_ms, median(memory) if memory else None)
    return costs
