"""Compares the searches of the service with those of other libraries.

    python -m benchmarks tuning [--quick] [--problems WORDS] [--keep FILE] [--peers NAMES]
    python -m benchmarks tuning --costs [--against CHECKOUT]

The problems are in ten classes (``problems.CLASSES``), from 2 to 20 dimensions: functions, noisy
ones, plateaus, mixed and conditional spaces, trainings, limits and two objectives.  A search has 40
trials, one at a time or 5 in parallel, and knows that; ``--trials 100`` compares longer ones.
Searches of the peers (Ax, Vizier, SMAC, Optuna) are read from ``peer_searches``: they do not depend
on this code.  ``--peers`` runs those that are missing, with the environments of ``make
tuning-peers``, and records them.

Goals: in each class a mean rank that is at most that of the best peer, and after 20 trials a median
regret on each problem that is at most that of random points.  ``regrets`` defines the regret;
``costs`` has the goals for the time and the memory of suggestions, which ``--costs`` measures.
"""

import argparse
import os
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmarks import charts
from benchmarks.harness import Benchmark, Goal, Report, at_most
from benchmarks.tuning import costs
from benchmarks.tuning.peers import OURS, PEERS, RANDOM
from benchmarks.tuning.pipes import PROGRAMS
from benchmarks.tuning.problems import CLASS_OF, CLASSES, ON_REQUEST
from benchmarks.tuning.record import missing, record
from benchmarks.tuning.recorded import append_run, read_folder, read_runs
from benchmarks.tuning.regrets import Regrets, regrets_of
from benchmarks.tuning.runs import Cell, Run, run_search
from benchmarks.tuning.tables import blocks, mode_of, random_goals, rank_goals

#: The trials of a large study, and the number that run at once.
CROWD, CROWD_PARALLEL = 1000, 50
CROWD_S_MAX: Final = 60.0
PARALLEL: Final = (1, 5)
#: The share of the problems that a peer in the picture has searched.
_DRAWN_MIN: Final = 0.75
#: The sizes of the quick and of the dry form.
QUICK_SEEDS: Final = 3
DRY_TRIALS, DRY_SIZES = 6, (20,)
DRY_PROBLEMS: Final = ("branin", "conditional", "branin-disk", "branin-currin")


def measure(args: argparse.Namespace) -> Report:
    """Run the searches that are missing, compare all, and draw the picture."""
    if args.dry:
        return measure_dry(args)
    if args.costs:
        spent = costs.measure(args.against)
        return Report(goals=[*spent.goals, _crowd(CROWD)], lines=spent.lines)
    for library in ("OPENBLAS", "OMP", "MKL"):  # the workers load them: one thread in each
        os.environ[f"{library}_NUM_THREADS"] = "1"
    cells = [*_cells(args)]
    notes = [*record(missing(args.peers, cells), args.minutes)] if args.peers else []
    if args.only_record:
        return Report(lines=notes)
    wanted = set(cells)
    runs = [run for run in read_folder() if run.cell in wanted and run.peer != OURS]
    have = {(run.peer, run.cell) for run in runs}
    own = [*_progress([(OURS, cell) for cell in cells], args)]
    own += _progress([(RANDOM, cell) for cell in cells if (RANDOM, cell) not in have], args)
    own.append(run_search(OURS, cells[0], through_pipe=True))  # the same again, for its memory
    table = regrets_of([*runs, *own])
    report = Report(
        goals=[*rank_goals(table), *random_goals(table)],
        lines=[*blocks(table, [*runs, *own], by_problem=args.by_problem)],
        left_out=dict(note.split(": ", 1) for note in notes if ": " in note),
    )
    if reason := charts.draw_regret(_tables_by_mode(table), args.out):
        report.left_out["picture"] = reason
    return report


def measure_dry(args: argparse.Namespace) -> Report:
    """Run a few trials of cheap problems: our searches here, and random points behind a pipe."""
    del args
    cells = [
        Cell(problem=name, parallel=parallel, trials=DRY_TRIALS, seed=0)
        for name in DRY_PROBLEMS
        for parallel in PARALLEL
    ]
    runs = [run_search(name, cell) for name in (OURS, RANDOM) for cell in cells]
    runs.append(run_search(RANDOM, cells[0], through_pipe=True))
    table = regrets_of(runs)
    growth = costs.growth(dimensions=4, sizes=DRY_SIZES)
    return Report(
        goals=[*costs.goals(growth), next(costs.memory(None)), _crowd(DRY_TRIALS)],
        left_out=dict.fromkeys(set(PEERS) - {RANDOM}, "not searched in the dry form"),
        lines=[*blocks(table, runs, by_problem=True)],
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the amount of search, the peers and the files."""
    usual = [word for word in CLASSES if word not in ON_REQUEST]
    words = partial(_names, accepted=CLASSES.keys() | CLASS_OF.keys())
    numbers = lambda text: [int(word) for word in text.split(",")]  # noqa: E731  # a type
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds, no trainings")
    parser.add_argument(
        "--problems", type=words, default=usual, help="classes or names, with commas; default: all"
    )
    parser.add_argument("--parallel", type=numbers, default=PARALLEL, help="default: 1,5")
    parser.add_argument("--trials", type=numbers, default=[40], help="default: 40")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="others have other optima")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="a file for our searches, which are not repeated")
    parser.add_argument(
        "--peers",
        type=partial(_names, accepted=PROGRAMS.keys() - {OURS}),
        default=[],
        help=f"record the missing searches of these: {','.join(PEERS)}",
    )
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="begin no search of a peer after this time"
    )
    parser.add_argument("--only-record", action="store_true", help="end after that")
    parser.add_argument("--by-problem", action="store_true", help="print each problem too")
    parser.add_argument(
        "--costs", action="store_true", help="measure only the time and the memory of suggestions"
    )
    parser.add_argument(
        "--against", type=Path, help="an earlier checkout, with whose memory to compare"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/images/tuning-regret.png"))


def _names(text: str, accepted: Collection[str]) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(accepted):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))} is not one of {accepted}")
    return names


def _cells(args: argparse.Namespace) -> Iterator[Cell]:
    names = [name for word in args.problems for name in CLASSES.get(word, (word,))]
    seeds = range(args.first_seed, args.first_seed + (QUICK_SEEDS if args.quick else args.seeds))
    for trials in args.trials:
        for parallel in args.parallel:
            for seed in seeds:
                for name in names:
                    if not args.quick or not name.startswith(("digits", "diabetes")):
                        yield Cell(problem=name, parallel=parallel, trials=trials, seed=seed)


def _progress(todo: list[tuple[str, Cell]], args: argparse.Namespace) -> Iterator[Run]:
    """Yield all searches: those in the file first, then the others, which run in new processes."""
    wanted = set(todo)
    runs = [
        run for run in (read_runs(args.keep) if args.keep else ()) if (run.peer, run.cell) in wanted
    ]
    yield from runs
    left = wanted - {(run.peer, run.cell) for run in runs}
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(run_search, *search) for search in sorted(left)]
        for done, future in enumerate(as_completed(waiting), start=len(runs) + 1):
            print(f"\r{done} of {len(todo)} searches", end="", file=sys.stderr, flush=True)
            if args.keep:
                append_run(args.keep, future.result())
            yield future.result()
    print(file=sys.stderr)


def _tables_by_mode(table: Regrets) -> dict[str, Regrets]:
    modes = sorted({mode_of(cell) for cell in table.by_peer[OURS]}, reverse=True)
    return {mode: _of_mode(table, mode) for mode in modes}


def _of_mode(table: Regrets, mode: str) -> Regrets:
    """Return the searches of a mode by peers with most problems: a median of others misleads."""
    inside = table.where(lambda cell: mode_of(cell) == mode)
    return Regrets(by_peer={name: inside.by_peer[name] for name in inside.list_peers(_DRAWN_MIN)})


def _crowd(trials: int) -> Goal:
    seconds = costs.crowd_s(trials, min(trials, CROWD_PARALLEL))
    name = f"{trials:,} suggestions, {CROWD_PARALLEL} in parallel"
    return at_most(name, seconds, CROWD_S_MAX, "s")


BENCHMARK = Benchmark(description=__doc__, measure=measure, add_options=add_options)
