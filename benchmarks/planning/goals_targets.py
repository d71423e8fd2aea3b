"""Goal G9 of docs/sources/planner.md 11: the samples to target of a batch, from other batches."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.planning.frame import Miss, Outcome, Row, Rows, errors_line
from trainshed.planning.scaling.targets import ToTarget, fit_recipe

#: A recipe with fewer batches has none between the smallest and the largest.
_BATCHES: Final = 3


def recipe_name(result: Row) -> str:
    """Return the recipe of a result: its benchmark; round v0.6 has recipes of its own.

    The reason is in the README of the tables, section 5.
    """
    return f"{result['benchmark']}{'@v0.6' if result['round'] == 'v0.6' else ''}"


def recipes_in_samples(results: Iterable[Row]) -> set[str]:
    """Return the recipes whose amounts are samples: most of their results have them."""
    counts: dict[str, list[bool]] = defaultdict(list)
    for result in results:
        counts[recipe_name(result)].append(result.get("samples_to_target", 0.0) > 0)
    return {
        name for name, has_samples in counts.items() if 2 * sum(has_samples) >= len(has_samples)
    }


def group_by_recipe(results: Iterable[Row], in_samples: set[str]) -> dict[str, list[ToTarget]]:
    """Return by recipe the median amount of each batch and round, in samples or else in epochs."""
    groups: dict[tuple[str, float, str], list[float]] = defaultdict(list)
    for row in results:
        name = recipe_name(row)
        amount = row.get("samples_to_target" if name in in_samples else "epochs_to_target")
        if amount:
            groups[name, row["global_batch"], row["round"]].append(amount)
    recipes: dict[str, list[ToTarget]] = defaultdict(list)
    for (name, batch, _), amounts in sorted(groups.items()):
        recipes[name].append(ToTarget(batch=batch, amount=statistics.median(amounts)))
    return dict(recipes)


def samples_to_target(ours: Rows, tested: Rows) -> Outcome:
    """Predict each batch of a tested recipe from the other batches.

    These are our results with that recipe, or the tested ones if we have none.
    """
    of_all = ours["result"] if tested is ours else (*ours["result"], *tested["result"])
    in_samples = recipes_in_samples(of_all)
    results = group_by_recipe(ours["result"], in_samples)
    inner: list[tuple[Miss, float, float]] = []
    outer: list[tuple[Miss, float, float]] = []
    for name, runs in group_by_recipe(tested["result"], in_samples).items():
        batches = sorted({run.batch for run in (*runs, *results.get(name, ()))})
        for run in runs:
            rest = [other for other in results.get(name, runs) if other.batch != run.batch]
            if len(batches) >= _BATCHES and rest:
                place = outer if run.batch in {batches[0], batches[-1]} else inner
                place.append(_left_out(name, run, rest))
    lines = [
        errors_line(label, [m.error for m, *_ in misses], goal, _peers(misses))
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
    predicted = fit_recipe(rest).amount(run.batch)
    law = abs(_power_law(rest, run.batch) / run.amount - 1)
    same = abs(statistics.median(other.amount for other in rest) / run.amount - 1)
    row = f"{name} batch {run.batch:g}"
    return Miss(row=row, predicted=predicted, measured=run.amount), law, same


def _power_law(runs: Sequence[ToTarget], batch: float) -> float:
    x, y = [math.log(o.batch) for o in runs], [math.log(o.amount) for o in runs]
    if len(set(x)) < 2:
        return math.exp(statistics.fmean(y))
    slope, level = statistics.linear_regression(x, y)
    return math.exp(level + slope * math.log(batch))


GOALS = {"G9": samples_to_target}
