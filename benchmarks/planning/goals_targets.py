"""Goals G9 and G10 of docs/sources/planner.md 11: how well amounts and minutes are predicted.

G9 predicts the samples to target of a batch from the other batches of its recipe.  G10 predicts the
minutes to target of one round of published results from the other rounds.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from benchmarks.planning.frame import Data, Miss, Outcome, errors_line, quantile
from benchmarks.planning.targets import (
    StepLosses,
    TrainingToTarget,
    fit_recipe,
    predict_amount,
    predict_minutes,
)
from trainshed.planning.scaling.tables import TrainingResult
from trainshed.planning.scaling.targets import Recipe, ToTarget

#: A recipe with fewer batches has none between the smallest and the largest.
_BATCHES: Final = 3
_FIXED = (0.0, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0, 1.5)
_PER_DOUBLING = (0.0, 0.007, 0.015, 0.03, 0.06, 0.1, 0.15)
#: The median error of all workloads counts as much as so many errors of the workload itself.
_PULL: Final = 3.0


def recipe_name(result: TrainingResult) -> str:
    """Return the recipe of a result: its benchmark; round v0.6 has recipes of its own.

    The reason is in the README of the tables, section 5.
    """
    return f"{result.benchmark}{'@v0.6' if result.round == 'v0.6' else ''}"


def group_by_recipe(results: Iterable[TrainingResult]) -> dict[str, list[ToTarget]]:
    """Return by recipe the median amount of each batch and round.

    The unit is samples, or epochs for a recipe of which most results have no samples.
    """
    recipes: dict[str, list[TrainingResult]] = defaultdict(list)
    for result in results:
        recipes[recipe_name(result)].append(result)
    return {name: list(_medians(rows)) for name, rows in sorted(recipes.items())}


def _medians(rows: Sequence[TrainingResult]) -> Iterator[ToTarget]:
    in_samples = 2 * sum(bool(row.samples_to_target) for row in rows) >= len(rows)
    groups: dict[tuple[float, str], list[float]] = defaultdict(list)
    for row in rows:
        amount = row.samples_to_target if in_samples else row.epochs_to_target
        if amount:
            groups[row.global_batch, row.round].append(amount)
    for (batch, origin), amounts in sorted(groups.items()):
        yield ToTarget(batch=batch, amount=statistics.median(amounts), origin=origin)


def samples_to_target(data: Data) -> Outcome:
    """Predict each batch of a tested recipe from the other batches.

    These are our results with that recipe, or the tested ones if we have none.
    """
    results = group_by_recipe(data.ours.results)
    inner: list[tuple[Miss, float, float]] = []
    outer: list[tuple[Miss, float, float]] = []
    for name, runs in group_by_recipe(data.tested.results).items():
        batches = sorted({run.batch for run in (*runs, *results.get(name, ()))})
        for run in runs:
            rest = [other for other in results.get(name, runs) if other.batch != run.batch]
            if len(batches) >= _BATCHES and rest:
                place = outer if run.batch in {batches[0], batches[-1]} else inner
                place.append(_left_out(name, run, rest))
    lines = [
        errors_line(label, [m for m, *_ in misses], goal, _peers(misses))
        for label, misses, goal in (
            ("samples to target, an inner batch", inner, (4.5, 18.0)),
            ("samples to target, an outermost batch", outer, (6.5, 18.0)),
        )
    ]
    return Outcome(lines=lines, misses=[miss for miss, *_ in (*inner, *outer)])


def _peers(misses: Sequence[tuple[Miss, float, float]]) -> dict[str, list[float]]:
    return {"power law": [law for _, law, _ in misses], "constant": [same for *_, same in misses]}


def _left_out(name: str, run: ToTarget, rest: Sequence[ToTarget]) -> tuple[Miss, float, float]:
    """Return our prediction, then the errors of a power law and of a constant amount."""
    row = f"{name} {run.origin} batch {run.batch:g}"
    predicted = predict_amount(rest, run.batch, run.origin)
    law = abs(_power_law(rest, run.batch) / run.amount - 1)
    same = abs(statistics.median(other.amount for other in rest) / run.amount - 1)
    limit = (
        "another recipe or target than the others"
        if run.amount < min(other.amount for other in rest)
        else "the recipe's curve"
    )
    return Miss(row=row, predicted=predicted, measured=run.amount, limit=limit), law, same


def _power_law(runs: Sequence[ToTarget], batch: float) -> float:
    x, y = [math.log(o.batch) for o in runs], [math.log(o.amount) for o in runs]
    if len(set(x)) < 2:
        return math.exp(statistics.fmean(y))
    slope, level = statistics.linear_regression(x, y)
    return math.exp(level + slope * math.log(batch))


Ladder = tuple[TrainingResult, Sequence[TrainingResult]]


def list_submissions(results: Iterable[TrainingResult]) -> Iterator[Ladder]:
    """Yield for each submission its smallest system, and the larger ones with the same hosts."""
    groups: dict[tuple[str, str, str, str, int], list[TrainingResult]] = defaultdict(list)
    for row in results:
        per_host = row.accelerators // row.hosts
        groups[row.round, row.submitter, row.benchmark, row.accelerator, per_host].append(row)
    for _, rows in sorted(groups.items()):
        base = min(rows, key=lambda row: (row.accelerators, row.minutes))
        larger = [row for row in rows if row.accelerators > base.accelerators]
        if larger:
            yield base, larger


def _trained(row: TrainingResult) -> TrainingToTarget:
    return TrainingToTarget(
        accelerators=row.accelerators, hosts=row.hosts, batch=row.global_batch, minutes=row.minutes
    )


def _amounts(rest: Sequence[TrainingResult], base: TrainingResult) -> Callable[[float], float]:
    """Return E(B) of a workload, fitted to results of other rounds.

    It is that of the recipe; else of another recipe of the benchmark; else of usual recipes.
    """
    recipes = group_by_recipe(row for row in rest if row.benchmark == base.benchmark)
    if runs := recipes.get(recipe_name(base)) or next(iter(recipes.values()), None):
        return cache(lambda batch: predict_amount(runs, batch))
    critical = usual_batch_ratio(tuple(rest)) * base.global_batch
    return Recipe(samples_at_least=1.0, critical_batch=critical).amount


@cache
def usual_batch_ratio(results: tuple[TrainingResult, ...]) -> float:
    """Return the median of (critical batch / batch of a submission's smallest system)."""
    recipes = {name: fit_recipe(runs) for name, runs in group_by_recipe(results).items() if runs}
    return statistics.median(
        recipes[name].critical_batch / base.global_batch
        for base, _ in list_submissions(results)
        if (name := recipe_name(base)) in recipes
    )


def _measured(base: TrainingResult, row: TrainingResult) -> Callable[[float], float]:
    """Return E(B) as two trainings report it, relative to ``base``; constant if they do not."""
    if base.samples_to_target and row.samples_to_target:
        times = row.samples_to_target / base.samples_to_target
    elif base.epochs_to_target and row.epochs_to_target:
        times = row.epochs_to_target / base.epochs_to_target
    else:
        times = 1.0
    return lambda batch: times if batch == row.global_batch else 1.0


Misses = dict[StepLosses, dict[str, list[float]]]


def list_errors(pairs: Sequence[tuple[TrainingResult, TrainingResult]]) -> Misses:
    """Return for each ``StepLosses`` of the grid the errors of its predictions, by workload."""
    misses: Misses = {}
    for losses in (StepLosses(fixed=f, per_doubling=d) for f in _FIXED for d in _PER_DOUBLING):
        misses[losses] = defaultdict(list)
        for base, row in pairs:
            misses[losses][base.benchmark].append(_miss_of_step(base, row, losses))
    return misses


def choose_losses(misses: Misses, benchmark: str) -> StepLosses:
    """Choose the losses with the smallest errors for a workload and for all workloads."""

    def total(losses: StepLosses) -> float:
        everywhere = [error for errors in misses[losses].values() for error in errors]
        usual = statistics.median(everywhere) if everywhere else 0.0
        return sum(misses[losses].get(benchmark, ())) + _PULL * usual

    return min(misses, key=total)


def _miss_of_step(base: TrainingResult, row: TrainingResult, losses: StepLosses) -> float:
    minutes = predict_minutes(_trained(base), _trained(row), losses, _measured(base, row))
    return abs(math.log(minutes / row.minutes))


def minutes_to_target(data: Data) -> Outcome:
    """Predict each round from the others, given the smallest system of each submission."""
    unknown: list[Miss] = []
    with_samples: list[Miss] = []
    peers: dict[str, list[float]] = {"Amdahl": [], "linear": []}
    for round_ in sorted({row.round for row in data.tested.results}):
        rest = [row for row in data.ours.results if row.round != round_]
        pairs = [(base, row) for base, rows in list_submissions(rest) for row in rows]
        serial, misses = _amdahl(pairs), list_errors(pairs)
        round_rows = [row for row in data.tested.results if row.round == round_]
        for base, rows in list_submissions(round_rows):
            losses = choose_losses(misses, base.benchmark)
            amount = _amounts(rest, base)
            for row in rows:
                unknown.append(_miss(base, row, losses, amount))
                with_samples.append(_miss(base, row, losses, _measured(base, row)))
                peers["Amdahl"].append(_error_of_share(base, row, serial))
                peers["linear"].append(_error_of_share(base, row, 0.0))
    lines = [
        errors_line("minutes to target, a round left out", unknown, (11.0, 32.0), peers),
        errors_line("the same with samples known", with_samples, (9.0, 30.0), peers),
    ]
    return Outcome(lines=lines, misses=unknown)


def _miss(
    base: TrainingResult, row: TrainingResult, losses: StepLosses, amount: Callable[[float], float]
) -> Miss:
    name = f"{row.round} {row.submitter} {row.benchmark} {row.accelerators} of {row.accelerator}"
    predicted = predict_minutes(_trained(base), _trained(row), losses, amount)
    limit = f"from {base.accelerators}, batch {base.global_batch:g} to {row.global_batch:g}"
    return Miss(row=name, predicted=predicted, measured=row.minutes, limit=limit)


def _amdahl(pairs: Sequence[tuple[TrainingResult, TrainingResult]]) -> float:
    """Fit the serial share of Amdahl's law to pairs of trainings."""
    shares = [s / 1000 for s in range(0, 500, 2)]
    return min(
        shares,
        key=lambda s: quantile((_error_of_share(a, b, s) for a, b in pairs), 0.5) if pairs else s,
    )


def _error_of_share(base: TrainingResult, row: TrainingResult, serial: float) -> float:
    times = row.accelerators / base.accelerators
    return abs(base.minutes * (serial + (1 - serial) / times) / row.minutes - 1)


GOALS = {"G9": samples_to_target, "G10": minutes_to_target}
