"""Measures suggestions: the regret compared with Optuna's samplers, and the processor time.

    python -m benchmarks tuning [--quick] [--keep FILE] [--vizier PYTHON] [--out PNG]
    python -m benchmarks tuning --costs [--against SRC]

The problems are functions similar to BBOB's in 4 and 20 dimensions, two of them drawn at run time,
a mixed and a conditional space, and two small trainings.  A search has 100 trials, one at a time or
4 in parallel; there are 5 seeds.  Optuna's GP searches only with some seeds, and is compared on
those.  ``runs.Regrets`` defines the normalised regret.  The goals for its median over all searches:
at most 5 % more than the best sampler of Optuna one at a time, and no more than it with 4 in
parallel.  ``costs`` has the goals for the time and the memory of suggestions.
"""

import argparse
import os
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

from benchmarks import charts
from benchmarks.harness import Benchmark, Goal, Report, at_most
from benchmarks.tuning import costs
from benchmarks.tuning.functions import DRAWN, FIXED
from benchmarks.tuning.peers import OPTUNAS, OURS
from benchmarks.tuning.problems import OTHERS
from benchmarks.tuning.runs import Cell, Regrets, Run, regrets, run_search
from benchmarks.tuning.searches_file import Todo, keep, split

BEHIND_MAX, AHEAD_MAX = 1.05, 1.0
#: The trials of a large study, and the number that run at once.
CROWD, CROWD_PARALLEL = 1000, 50
CROWD_S_MAX = 60.0
QUICK = ("sphere", "rosenbrock", "rastrigin", "different-powers")
VIZIER = ("rosenbrock", "rastrigin")
VIZIER_TRIALS = 40
MODES = {1: "one at a time", 4: "4 in parallel"}
#: The sizes of the dry form, which searches in this process.
DRY_TRIALS, DRY_SIZES = 6, (20,)


def measure(args: argparse.Namespace) -> Report:
    """Run all searches, compare them, and draw the picture."""
    if args.dry:
        return measure_dry(args)
    if args.costs:
        return costs.measure(args.against)
    for library in ("OPENBLAS", "OMP", "MKL"):  # the workers load them: one thread in each
        os.environ[f"{library}_NUM_THREADS"] = "1"
    args.draw = random.SystemRandom().randrange(10**6) if args.draw is None else args.draw
    cells, trials = list(_cells(args)), 50 if args.quick else 100
    todo = [
        (name, cell, trials) for cell in cells for name in _peers() if _is_due(name, cell, args)
    ]
    runs = list(_progress(todo, args))
    table = regrets(runs)
    lines = [line for parallel in MODES for line in _table(table, parallel)]
    if args.vizier:
        lines += _beside_vizier(runs, args)
    spent = costs.measure(args.against)
    behind = [_behind(table, parallel) for parallel in MODES]
    report = Report(
        goals=[*behind, *spent.goals, _crowd(CROWD)],
        lines=[*lines, *spent.lines],
    )
    if reason := charts.draw_regret(_tables_by_step(runs), args.out):
        report.left_out["picture"] = reason
    return report


def measure_dry(args: argparse.Namespace) -> Report:
    """Run a few trials of the cheapest problem, with our suggestions and with random points."""
    del args
    cells = [Cell(dimensions=4, name="sphere", parallel=parallel, seed=0) for parallel in MODES]
    names = (OURS, "random")
    table = regrets([run_search(name, cell, DRY_TRIALS) for name in names for cell in cells])
    growth = costs.growth(dimensions=4, sizes=DRY_SIZES)
    return Report(
        goals=[*costs.goals(growth), _crowd(DRY_TRIALS)],
        left_out=dict.fromkeys(OPTUNAS, "not searched in the dry form"),
        lines=[*(line for parallel in MODES for line in _table(table, parallel))],
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the amount of search, the peers and the files."""
    parser.add_argument("--quick", action="store_true", help="4 functions, 1 seed, 50 trials")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--gp-seeds", type=int, default=1, help="the number of seeds for optuna-gp")
    parser.add_argument(
        "--draw", type=int, help="the seed that draws the two functions; default: random"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        help="a file to which to add the searches, so that the next run skips them",
    )
    parser.add_argument("--vizier", help="a Python that has google-vizier")
    parser.add_argument(
        "--costs", action="store_true", help="measure only the time and the memory of suggestions"
    )
    parser.add_argument(
        "--against", type=Path, help="an earlier checkout, with whose memory to compare"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/images/tuning-regret.png"))


def _peers() -> list[str]:
    """List the peers; Optuna's CMA-ES is one of them only if its package is installed."""
    able = [name for name in OPTUNAS if name != "optuna-cmaes" or find_spec("cmaes")]
    return [OURS, "random", *able]


def _is_due(name: str, cell: Cell, args: argparse.Namespace) -> bool:
    """Return whether a peer searches in a cell.

    Optuna's GP searches only with the first seeds, because a trial takes up to a second.
    """
    if name != "optuna-gp":
        return True
    own = cell.seed - (int(args.draw) if cell.name in DRAWN else 0)
    return own < int(args.gp_seeds)


def _cells(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield all cells; the drawn functions have other optima in each run."""
    drawn = random.Random(args.draw).sample(sorted(DRAWN), 2)  # noqa: S311  # to be repeated
    print(f"drawn by seed {args.draw}: {', '.join(drawn)}")
    fixed = QUICK if args.quick else tuple(FIXED)
    for seed in range(1 if args.quick else args.seeds):
        for parallel in MODES:
            for dimensions in (4, 20):
                for name in fixed:
                    yield Cell(dimensions=dimensions, name=name, parallel=parallel, seed=seed)
                for name in drawn[: 1 if args.quick else 2]:
                    own = args.draw + seed
                    yield Cell(dimensions=dimensions, name=name, parallel=parallel, seed=own)
            for name in OTHERS:
                yield Cell(dimensions=0, name=name, parallel=parallel, seed=seed)


def _progress(todo: list[Todo], args: argparse.Namespace) -> Iterator[Run]:
    """Yield all searches: those in the file first, then the others, which run in new processes."""
    runs, left = split(todo, args.keep)
    yield from runs
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(run_search, *search) for search in left]
        for done, future in enumerate(as_completed(waiting), start=len(runs) + 1):
            print(f"\r{done} of {len(todo)} searches", end="", file=sys.stderr, flush=True)
            keep(args.keep, future.result())
            yield future.result()
    print(file=sys.stderr)


def _table(table: Regrets, parallel: int) -> Iterator[str]:
    """Yield a line for each problem, and lines for all problems together."""
    peers = list(table.by_peer)
    yield f"\nnormalised regret, {MODES[parallel]}: median over the seeds"
    yield _row("", peers)
    cells = table.cells(lambda cell: cell.parallel == parallel)
    for group in sorted({(cell.dimensions, cell.name) for cell in cells}):
        own = [cell for cell in cells if (cell.dimensions, cell.name) == group]  # of all peers
        medians = [f"{table.median(name, own):.2e}" for name in peers]
        yield _row(f"{group[1]} {group[0] or ''}", medians)
    yield _row("all: median", [f"{table.median(name, cells):.4f}" for name in peers])
    yield _row("all: mean of log10", [f"{table.magnitude(name, cells):.2f}" for name in peers])
    yield _row("all: mean rank", [f"{table.rank(name, cells):.2f}" for name in peers])


def _row(label: str, values: Sequence[str]) -> str:
    return f"{label:28}" + "".join(f"{value:>18}" for value in values)


def _behind(table: Regrets, parallel: int) -> Goal:
    """Compare our regret with that of Optuna's best sampler, in cells that both have searched."""
    ratios = {}
    for name in set(OPTUNAS) & set(table.by_peer):
        cells = table.cells(lambda cell: cell.parallel == parallel, (OURS, name))
        ratios[name] = table.median(OURS, cells) / table.median(name, cells)
    best = max(ratios, key=ratios.__getitem__)
    limit = BEHIND_MAX if parallel == 1 else AHEAD_MAX
    return at_most(f"regret, {MODES[parallel]}, over {best}'s", ratios[best], limit, "times")


def _crowd(trials: int) -> Goal:
    seconds = costs.crowd_s(trials, min(trials, CROWD_PARALLEL))
    name = f"{trials:,} suggestions, {CROWD_PARALLEL} in parallel"
    return at_most(name, seconds, CROWD_S_MAX, "s")


def _tables_by_step(runs: Sequence[Run]) -> dict[str, dict[int, Regrets]]:
    """Return the regrets after every fifth trial, by mode and by the number of trials."""
    steps = range(5, len(runs[0].best) + 1, 5)
    by_mode = {
        mode: [run for run in runs if run.cell.parallel == parallel]
        for parallel, mode in MODES.items()
    }
    return {mode: {step: regrets(own, step) for step in steps} for mode, own in by_mode.items()}


def _beside_vizier(runs: Sequence[Run], args: argparse.Namespace) -> Iterator[str]:
    """Yield the comparison with Vizier on few cells, because its suggestions take seconds."""
    cells = [Cell(dimensions=4, name=name, parallel=1, seed=0) for name in VIZIER]
    same = [run for run in runs if run.cell in cells]
    search = partial(run_search, f"vizier:{args.vizier}", trials=VIZIER_TRIALS)
    table = regrets([*same, *map(search, cells)], VIZIER_TRIALS)
    yield f"\nbeside google-vizier's default, after {VIZIER_TRIALS} trials, 4 dimensions, seed 0"
    for name in table.by_peer:
        values = [f"{table.by_peer[name][cell]:.2e}" for cell in table.cells(bool)]
        yield _row(name, values)


BENCHMARK = Benchmark(description=__doc__, measure=measure, add_options=add_options)
