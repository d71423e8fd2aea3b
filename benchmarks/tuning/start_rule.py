"""Compares plans of the search for one objective, on functions whose optimum is anywhere.

    python -m benchmarks tuning-start [--plans NAME ...] [--on PROBLEM ...] [--parallel N]
        [--trials N] [--seeds N] [--keep FILE]

A plan says how many trials fill the space and what the model assumes (``SearchPlan``).  The
problems are classical functions in 2 to 20 dimensions, moved by seed, some with noise or plateaus,
a mixed and a conditional space.  The plans ``prior``, ``wide``, ``wrong`` and ``wrong wide`` are
rule 2 with a statement where the optimum is, on the classical functions.  A regret is normalised: 0
is the optimum, 1 the median of random points; with noise it is the regret of the point whose
measured value is best.  The table has the mean log10 regret after 10, 20, 40 and 100 trials, its
difference from the plan ``base`` with the half width of its 95 % interval, and the share of
searches that are worse than the median of random searches of the same length.
"""

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.harness import Benchmark, Report, tell
from benchmarks.tuning.problems import problem
from benchmarks.tuning.shifted import shifted
from benchmarks.tuning.spaces import Chosen, Problem, double, study_of
from benchmarks.tuning.stated_priors import STATED_PRIORS, state_prior
from trainshed.model.study import StudySpec
from trainshed.tuning.bayesian import Bayesian
from trainshed.tuning.history import History, TriedPoint, pending_at
from trainshed.tuning.random_search import random_of, random_point
from trainshed.tuning.search_plan import FIRST_PLAN, SearchPlan, search_plan
from trainshed.tuning.space import Space, space_of

#: The numbers of trials after which regrets are compared.
AFTER: Final = (10, 20, 40, 100)
#: Random points of a problem: their median is its usual value.
_DRAWN: Final = 2000
#: A smaller regret counts as this one.
_LEAST: Final = 1e-5
#: The standard deviation of noise, as a share of the spread of a function's better half.
_NOISE: Final = 0.1
#: The number of plateaus between the optimum and the usual value.
_PLATEAUS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningProblem:
    """One problem: a function of ``shifted``, or one of ``problems.OTHERS``."""

    function: str
    dimensions: int = 0
    noise: float = 0.0
    plateaus: int = 0


PROBLEMS: Final[Mapping[str, TuningProblem]] = {
    "branin 2": TuningProblem(function="branin", dimensions=2),
    "camel 2": TuningProblem(function="camel", dimensions=2),
    "hartmann 3": TuningProblem(function="hartmann", dimensions=3),
    "levy 4": TuningProblem(function="levy", dimensions=4),
    "rosenbrock 4": TuningProblem(function="rosenbrock", dimensions=4),
    "shekel 4": TuningProblem(function="shekel", dimensions=4),
    "styblinski-tang 4": TuningProblem(function="styblinski-tang", dimensions=4),
    "griewank 5": TuningProblem(function="griewank", dimensions=5),
    "michalewicz 5": TuningProblem(function="michalewicz", dimensions=5),
    "hartmann 6": TuningProblem(function="hartmann", dimensions=6),
    "ackley 6": TuningProblem(function="ackley", dimensions=6),
    "cosine 8": TuningProblem(function="cosine", dimensions=8),
    "levy 10": TuningProblem(function="levy", dimensions=10),
    "rosenbrock 10": TuningProblem(function="rosenbrock", dimensions=10),
    "styblinski-tang 20": TuningProblem(function="styblinski-tang", dimensions=20),
    "ackley 20": TuningProblem(function="ackley", dimensions=20),
    "noisy branin 2": TuningProblem(function="branin", dimensions=2, noise=_NOISE),
    "noisy levy 4": TuningProblem(function="levy", dimensions=4, noise=_NOISE),
    "noisy hartmann 6": TuningProblem(function="hartmann", dimensions=6, noise=_NOISE),
    "steps 5": TuningProblem(function="steps", dimensions=5),
    "flat hartmann 3": TuningProblem(function="hartmann", dimensions=3, plateaus=_PLATEAUS),
    "mixed": TuningProblem(function="mixed"),
    "conditional": TuningProblem(function="conditional"),
}

Plan = Callable[[StudySpec], SearchPlan]


def _filled(count: int) -> Plan:
    return lambda study: replace(
        search_plan(study), filling_count=count, results_min=max(2, count // 2)
    )


BASE: Final = "rule 2"
#: The plans by name, from a study.
PLANS: Final[Mapping[str, Plan]] = {
    "rule 1": lambda _study: FIRST_PLAN,
    BASE: search_plan,
    **{f"{count} filling": _filled(count) for count in (3, 6, 10)},
    **dict.fromkeys(STATED_PRIORS, search_plan),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSearch:
    """One search: the regret after each trial, and the median of random searches."""

    plan: str
    setting: str
    seed: int
    parallel: int
    regrets: tuple[float, ...]
    random: Mapping[str, float]
    """By the number of trials (a text, as in JSON)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemFacts:
    """A problem of one seed, with what is known of it."""

    study: StudySpec
    space: Space
    loss: Callable[[Chosen], float]
    floor: float
    usual: float
    spread: float
    random: Mapping[str, float]

    def regret(self, value: float) -> float:
        """Return the normalised regret of a value without noise."""
        return (value - self.floor) / (self.usual - self.floor)


@lru_cache(maxsize=256)
def task_of(name: str, seed: int) -> ProblemFacts:
    """Make a problem, and draw the random points with which searches are compared."""
    target = _problem(PROBLEMS[name], seed)
    space, draw = space_of(target.study), random_of(seed, 0, "usual")
    values = np.array([target.measure(dict(random_point(space, draw)))[0] for _ in range(_DRAWN)])
    usual, floor = float(np.median(values)), target.floor or 0.0
    best = {n: np.min(values[: _DRAWN // n * n].reshape(-1, n), axis=1) for n in AFTER}
    return ProblemFacts(
        study=target.study,
        space=space,
        loss=lambda chosen: target.measure(chosen)[0],
        floor=floor,
        usual=usual,
        spread=float(np.std(np.minimum(values, usual))),
        random={
            str(n): (float(np.median(row)) - floor) / (usual - floor) for n, row in best.items()
        },
    )


def _problem(setting: TuningProblem, seed: int) -> Problem:
    if not setting.dimensions:
        return problem(setting.function, seed)
    function, floor = shifted(setting.function, setting.dimensions, seed)
    names = [f"x{i:02}" for i in range(setting.dimensions)]

    def values(chosen: Chosen) -> tuple[float, ...]:
        return (function(np.array([float(chosen[name]) for name in names])),)

    study = study_of(*(double(name, 0, 1) for name in names))
    return Problem(study=study, measure=values, floor=floor)


def search(plan: str, name: str, seed: int, parallel: int, trials: int) -> PlannedSearch:
    """Run one search; of the trials that run at once the oldest ends first."""
    task, setting = task_of(name, seed), PROBLEMS[name]
    study = replace(task.study, trial_count_max=trials, trial_count_parallel=parallel)
    if plan in STATED_PRIORS:
        study = state_prior(study, STATED_PRIORS[plan], task.loss, seed)
    space = space_of(study)
    sampler = Bayesian(study, space, seed, plan=PLANS[plan](study))
    noise = np.random.default_rng([seed, 77])
    finished: list[TriedPoint] = []
    pending: list[TriedPoint] = []
    measured_best, regret, regrets = math.inf, math.inf, []
    while len(finished) < trials:
        while len(pending) < parallel and len(finished) + len(pending) < trials:
            pending.append(_next(sampler, space, finished, pending))
        ended = pending.pop(0)
        value = task.loss(dict(ended.values))
        measured = _measure(value, task, setting, float(noise.standard_normal()))
        finished.append(replace(ended, losses=(measured,)))
        if measured < measured_best:
            measured_best, regret = measured, task.regret(value)
        regrets.append(regret)
    return PlannedSearch(
        plan=plan,
        setting=name,
        seed=seed,
        parallel=parallel,
        regrets=tuple(regrets),
        random=task.random,
    )


def _next(
    sampler: Bayesian, space: Space, finished: Sequence[TriedPoint], pending: Sequence[TriedPoint]
) -> TriedPoint:
    count = len(finished) + len(pending)
    history = History(
        finished=tuple(finished), pending=tuple(pending), number=count + 1, is_first=count == 0
    )
    tried = history.points
    return pending_at(space, next(v for v in sampler.propose(history) if v not in tried))


def _measure(value: float, task: ProblemFacts, setting: TuningProblem, deviate: float) -> float:
    if setting.plateaus:
        return math.floor(task.regret(value) * setting.plateaus) / setting.plateaus
    return value + setting.noise * task.spread * deviate


def measure(args: argparse.Namespace) -> Report:
    """Run the searches that the file does not have, and compare the plans."""
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    trials, names = int(args.trials), args.on or [*PROBLEMS][: int(args.problems)]
    done = list(_read(args.keep))
    keys = {(s.plan, s.setting, s.seed, s.parallel, len(s.regrets)) for s in done}
    for seed in range(int(args.seeds)):
        for plan in args.plans:
            for name in names:
                if (plan, name, seed, int(args.parallel), trials) not in keys:
                    done.append(search(plan, name, seed, int(args.parallel), trials))
                    _keep(args.keep, done[-1])
        tell(f"seed {seed}")
    searches = [s for s in done if s.parallel == args.parallel and len(s.regrets) == trials]
    wanted = [s for s in searches if s.plan in args.plans and s.setting in names]
    return Report(lines=list(_table(wanted, args)), data={"searches": len(wanted)})


def _read(path: Path | None) -> Iterator[PlannedSearch]:
    if path and path.exists():
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            yield PlannedSearch(**fields | {"regrets": tuple(fields["regrets"])})


def _keep(path: Path | None, search: PlannedSearch) -> None:
    if path:
        with path.open("a") as file:
            file.write(json.dumps(asdict(search)) + "\n")


def _table(searches: Sequence[PlannedSearch], args: argparse.Namespace) -> Iterator[str]:
    by_plan = {
        plan: {(s.setting, s.seed): s for s in searches if s.plan == plan} for plan in args.plans
    }
    base = by_plan[args.base if args.base in by_plan else args.plans[0]]
    afters = [n for n in AFTER if n <= args.trials] or [int(args.trials)]
    yield (
        f"{args.parallel} at a time: mean log10 regret, its difference from {args.base}, "
        "and the share of searches that are worse than random"
    )
    for plan, rows in by_plan.items():
        common = sorted(rows.keys() & base.keys())
        cells = [_cell([(rows[key], base[key]) for key in common], n) for n in afters]
        yield f"{plan:14} {len(common):4}  " + "   ".join(cells)
    for n in afters:
        yield f"\nmean log10 regret after {n} trials" + "".join(f"{plan:>14}" for plan in by_plan)
        for setting in dict.fromkeys(s.setting for s in searches):
            means = [
                np.mean([_log(s, n) for s in rows.values() if s.setting == setting])
                for rows in by_plan.values()
            ]
            yield f"{setting:34}" + "".join(f"{mean:14.2f}" for mean in means)


def _cell(pairs: Sequence[tuple[PlannedSearch, PlannedSearch]], after: int) -> str:
    own = np.array([_log(search, after) for search, _ in pairs])
    gaps = own - np.array([_log(base, after) for _, base in pairs])
    half = 1.96 * float(np.std(gaps)) / math.sqrt(len(gaps))
    worse = [s.regrets[after - 1] > s.random.get(str(after), math.inf) for s, _ in pairs]
    return f"{after}: {own.mean():5.2f} {gaps.mean():+5.2f} ±{half:.2f} {np.mean(worse):4.0%}"


def _log(search: PlannedSearch, after: int) -> float:
    return math.log10(max(search.regrets[after - 1], _LEAST))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the plans and the file of searches."""
    parser.add_argument(
        "--plans",
        nargs="+",
        choices=PLANS,
        default=["rule 1", BASE],
        metavar="NAME",
        help=", ".join(PLANS),
    )
    parser.add_argument("--on", nargs="+", choices=PROBLEMS, metavar="PROBLEM", help="only these")
    parser.add_argument("--base", choices=PLANS, default=BASE, help="the plan to compare with")
    parser.add_argument("--keep", type=Path, help="a file of searches, which are not run again")


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"seeds": (12, 1), "trials": (40, 6), "parallel": (1, 1), "problems": (len(PROBLEMS), 2)},
    add_options=add_options,
)
