"""G9 and G10: samples to target with a batch left out, minutes to it with a round left out."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from benchmarks.planning.frame import Data, Miss, Outcome, errors_line, quantile
from benchmarks.planning.targets import StepLosses, Trained, amount_at, minutes_at, recipe_of
from trainshed.planning.scaling.tables import TrainingResult
from trainshed.planning.scaling.targets import Recipe, ToTarget

#: With fewer batches a recipe has no inner one.
_BATCHES: Final = 3
_FIXED = (0.0, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0, 1.5)
_PER_DOUBLING = (0.0, 0.007, 0.015, 0.03, 0.06, 0.1, 0.15)
#: So many predictions of all workloads weigh on the losses of one.
_PULL: Final = 3.0


def recipe_name(result: TrainingResult) -> str:
    """Rounds change recipes; v0.6 is never pooled with later ones (README of the tables, 5)."""
    return f"{result.benchmark}{'@v0.6' if result.round == 'v0.6' else ''}"


def to_target(results: Iterable[TrainingResult]) -> dict[str, list[ToTarget]]:
    """By recipe: the median of each batch and round, in samples, or in epochs if most lack them."""
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
    """Each batch of a recipe from its other batches; of a recipe that only they have, theirs."""
    results = to_target(data.ours.results)
    inner: list[tuple[Miss, float, float]] = []
    outer: list[tuple[Miss, float, float]] = []
    for name, runs in to_target(data.tested.results).items():
        batches = sorted({run.batch for run in (*runs, *results.get(name, ()))})
        for run in runs:
            rest = [one for one in results.get(name, runs) if one.batch != run.batch]
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
    """Ours, and the errors of a power law and of constant epochs."""
    row = f"{name} {run.origin} batch {run.batch:g}"
    predicted = amount_at(rest, run.batch, run.origin)
    law = abs(_power_law(rest, run.batch) / run.amount - 1)
    same = abs(statistics.median(one.amount for one in rest) / run.amount - 1)
    limit = (
        "another recipe or target than the others"
        if run.amount < min(one.amount for one in rest)
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


def ladders(results: Iterable[TrainingResult]) -> Iterator[Ladder]:
    """Of each submission: its smallest system, and the others with such hosts."""
    groups: dict[tuple[str, str, str, str, int], list[TrainingResult]] = defaultdict(list)
    for row in results:
        per_host = row.accelerators // row.hosts
        groups[row.round, row.submitter, row.benchmark, row.accelerator, per_host].append(row)
    for _, rows in sorted(groups.items()):
        base = min(rows, key=lambda row: (row.accelerators, row.minutes))
        larger = [row for row in rows if row.accelerators > base.accelerators]
        if larger:
            yield base, larger


def _trained(row: TrainingResult) -> Trained:
    return Trained(
        accelerators=row.accelerators, hosts=row.hosts, batch=row.global_batch, minutes=row.minutes
    )


def _amounts(rest: Sequence[TrainingResult], base: TrainingResult) -> Callable[[float], float]:
    """E(B) of a workload from other rounds: of its recipe, of another one, or as all mostly are."""
    recipes = to_target(row for row in rest if row.benchmark == base.benchmark)
    if runs := recipes.get(recipe_name(base)) or next(iter(recipes.values()), None):
        return cache(lambda batch: amount_at(runs, batch))
    critical = usual_critical(tuple(rest)) * base.global_batch
    return Recipe(samples_at_least=1.0, critical_batch=critical).amount


@cache
def usual_critical(results: tuple[TrainingResult, ...]) -> float:
    """Critical batches over those of submissions' smallest systems: the median."""
    recipes = {name: recipe_of(runs) for name, runs in to_target(results).items() if runs}
    return statistics.median(
        recipes[name].critical_batch / base.global_batch
        for base, _ in ladders(results)
        if (name := recipe_name(base)) in recipes
    )


def _measured(base: TrainingResult, row: TrainingResult) -> Callable[[float], float]:
    """E(B) as these two trainings had it; their batches where it is not known."""
    if base.samples_to_target and row.samples_to_target:
        times = row.samples_to_target / base.samples_to_target
    elif base.epochs_to_target and row.epochs_to_target:
        times = row.epochs_to_target / base.epochs_to_target
    else:
        times = 1.0
    return lambda batch: times if batch == row.global_batch else 1.0


Misses = dict[StepLosses, dict[str, list[float]]]


def misses_of(pairs: Sequence[tuple[TrainingResult, TrainingResult]]) -> Misses:
    """What all losses that are tried miss, by workload."""
    misses: Misses = {}
    for losses in (StepLosses(fixed=f, per_doubling=d) for f in _FIXED for d in _PER_DOUBLING):
        misses[losses] = defaultdict(list)
        for base, row in pairs:
            misses[losses][base.benchmark].append(_miss_of_step(base, row, losses))
    return misses


def losses_of(misses: Misses, benchmark: str) -> StepLosses:
    """What other rounds say of a workload's losses, drawn to those of all workloads."""

    def total(losses: StepLosses) -> float:
        everywhere = [error for errors in misses[losses].values() for error in errors]
        usual = statistics.median(everywhere) if everywhere else 0.0
        return sum(misses[losses].get(benchmark, ())) + _PULL * usual

    return min(misses, key=total)


def _miss_of_step(base: TrainingResult, row: TrainingResult, losses: StepLosses) -> float:
    minutes = minutes_at(_trained(base), _trained(row), losses, _measured(base, row))
    return abs(math.log(minutes / row.minutes))


def minutes_to_target(data: Data) -> Outcome:
    """Each round from the others: the submission's smallest system is known, the rest is asked."""
    unknown: list[Miss] = []
    with_samples: list[Miss] = []
    peers: dict[str, list[float]] = {"Amdahl": [], "linear": []}
    for round_ in sorted({row.round for row in data.tested.results}):
        rest = [row for row in data.ours.results if row.round != round_]
        pairs = [(base, row) for base, rows in ladders(rest) for row in rows]
        serial, misses = _amdahl(pairs), misses_of(pairs)
        round_rows = [row for row in data.tested.results if row.round == round_]
        for base, rows in ladders(round_rows):
            losses = losses_of(misses, base.benchmark)
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
    predicted = minutes_at(_trained(base), _trained(row), losses, amount)
    limit = f"from {base.accelerators}, batch {base.global_batch:g} to {row.global_batch:g}"
    return Miss(row=name, predicted=predicted, measured=row.minutes, limit=limit)


def _amdahl(pairs: Sequence[tuple[TrainingResult, TrainingResult]]) -> float:
    """The share that does not scale, of the other rounds."""
    shares = [s / 1000 for s in range(0, 500, 2)]
    return min(
        shares,
        key=lambda s: quantile((_error_of_share(a, b, s) for a, b in pairs), 0.5) if pairs else s,
    )


def _error_of_share(base: TrainingResult, row: TrainingResult, serial: float) -> float:
    times = row.accelerators / base.accelerators
    return abs(base.minutes * (serial + (1 - serial) / times) / row.minutes - 1)


GOALS = {"G9": samples_to_target, "G10": minutes_to_target}
