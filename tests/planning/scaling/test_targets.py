"""Samples to target by batch, and minutes to it on other counts."""

import importlib
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.planning import frame
from benchmarks.planning import goals_targets as goals
from benchmarks.planning.targets import (
    StepLosses,
    TrainingToTarget,
    fit_recipe,
    predict_amount,
    predict_minutes,
)
from hypothesis import given
from hypothesis import strategies as st

from trainshed.planning.scaling.targets import Recipe, ToTarget, two_runs

RECIPES = st.builds(Recipe, samples_at_least=st.floats(1, 1e9), critical_batch=st.floats(10, 1e6))


def run(recipe, batch, origin=""):
    return ToTarget(batch=batch, amount=recipe.amount(batch), origin=origin)


@given(recipe=RECIPES)
def test_two_runs_determine_a_recipe(recipe):
    batch = recipe.critical_batch
    estimate = two_runs(run(recipe, batch / 2), run(recipe, 4 * batch))
    assert estimate.critical_batch == pytest.approx(recipe.critical_batch, rel=1e-6)
    assert estimate.samples_at_least == pytest.approx(recipe.samples_at_least, rel=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ((64, 100.0), (70, 101.0), "too close"),
        ((64, 100.0), (256, 90.0), "no critical batch"),
        ((64, 100.0), (128, 900.0), "no critical batch"),
    ],
)
def test_two_runs_that_say_nothing_are_refused(first, second, why):
    runs = [ToTarget(batch=batch, amount=amount) for batch, amount in (first, second)]
    with pytest.raises(ValueError, match=why):
        two_runs(*runs)


def test_many_runs_find_a_recipe_and_one_wild_run_does_not_bend_it():
    true = Recipe(samples_at_least=1e6, critical_batch=2000)
    runs = [run(true, batch) for batch in (128, 512, 1024, 4096, 16384)]
    wild = ToTarget(batch=2048, amount=9e6)
    recipe = fit_recipe([*runs, wild])
    assert recipe.amount(2048) == pytest.approx(true.amount(2048), rel=0.1)


def test_larger_batches_take_more_samples_and_fewer_steps():
    recipe = Recipe(samples_at_least=1e6, critical_batch=2000)
    assert recipe.amount(4000) > recipe.amount(400)
    assert recipe.steps(4000) < recipe.steps(400)


def test_nothing_is_known_without_a_finished_run():
    with pytest.raises(ValueError, match="at least one finished run"):
        fit_recipe([])


def test_neighbours_bend_the_curve():
    true = Recipe(samples_at_least=1e6, critical_batch=2000)
    runs = [run(true, b) for b in (128, 512, 4096)] + [ToTarget(batch=1000, amount=1.7e6)]
    assert predict_amount(runs, 1100) > fit_recipe(runs).amount(1100)


def test_twice_the_accelerators_with_the_same_local_batch_take_half_the_steps():
    base = TrainingToTarget(accelerators=8, hosts=1, batch=256, minutes=10.0)
    other = TrainingToTarget(accelerators=16, hosts=2, batch=512)
    minutes = predict_minutes(base, other, StepLosses(fixed=0.0, per_doubling=0.0), lambda _: 1.0)
    assert minutes == pytest.approx(5.0)


def test_no_row_of_a_batch_that_is_left_out_enters_its_prediction():
    """Rows of the left-out batch are made absurd: what is predicted stays."""
    tables = frame.tables_of(frame.PUBLISHED)
    few = replace(tables, results=tuple(r for r in tables.results if r.benchmark == "flux1"))
    batch = sorted({r.global_batch for r in few.results})[2]
    poisoned = replace(
        few,
        results=tuple(
            replace(r, samples_to_target=1.0, minutes=1e9) if r.global_batch == batch else r
            for r in few.results
        ),
    )
    clean = goals.samples_to_target(frame.Data(ours=few, tested=few))
    dirty = goals.samples_to_target(frame.Data(ours=poisoned, tested=few))
    row = f"batch {batch:g}"
    before, after = ([m for m in f.misses if m.row.endswith(row)] for f in (clean, dirty))
    assert before
    assert before == after


def test_no_row_of_a_round_that_is_left_out_enters_its_losses_or_recipes():
    tables = frame.tables_of(frame.PUBLISHED)
    rows = [r for r in tables.results if r.benchmark == "unet3d"]
    rounds = sorted({r.round for r in rows})
    assert len(rounds) > 1
    poison = [replace(r, samples_to_target=1.0, minutes=1e9) for r in rows]
    clean, dirty = (
        frame.Data(
            ours=replace(
                tables,
                results=tuple(
                    p if swap and r.round == rounds[0] else r
                    for r, p in zip(rows, poison, strict=True)
                ),
            ),
            tested=replace(tables, results=tuple(r for r in rows if r.round == rounds[0])),
        )
        for swap in (False, True)
    )
    assert goals.minutes_to_target(clean).misses == goals.minutes_to_target(dirty).misses


def test_the_workloads_of_the_release_are_refitted(monkeypatch):
    root = Path(__file__).parents[3]
    monkeypatch.syspath_prepend(str(root / "scripts"))
    written = importlib.import_module("fit_targets").workloads()
    text = (root / "benchmarks/planning/targets_fit.toml").read_text()
    assert text.endswith(written)
    (retinanet,) = (row for row in tomllib.loads(text)["workload"] if row["name"] == "retinanet")
    assert retinanet["critical_batch"] == pytest.approx(1800, rel=0.5)
