"""Samples to target by batch."""

import pytest
from benchmarks.planning import frame
from benchmarks.planning import goals_targets as goals
from hypothesis import given
from hypothesis import strategies as st

from trainshed.planning.scaling.targets import Recipe, ToTarget, fit_recipe, recipe_of

RECIPES = st.builds(Recipe, samples_at_least=st.floats(1, 1e9), critical_batch=st.floats(10, 1e6))
USUAL = Recipe(samples_at_least=1e6, critical_batch=2000)


def run(recipe, batch):
    return ToTarget(batch=batch, amount=recipe.amount(batch))


def results_of(benchmark):
    rows = frame.rows_of(frame.PUBLISHED)["result"]
    return [row for row in rows if row["benchmark"] == benchmark]


@given(recipe=RECIPES)
def test_two_runs_determine_a_recipe(recipe):
    batch = recipe.critical_batch
    estimate = recipe_of([run(recipe, batch / 4), run(recipe, 4 * batch)])
    assert estimate.critical_batch == pytest.approx(recipe.critical_batch, rel=0.1)
    assert estimate.samples_at_least == pytest.approx(recipe.samples_at_least, rel=0.1)


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ((64, 100.0), (70, 101.0), "too close"),
        ((64, 100.0), (256, 90.0), "no critical batch"),
        ((64, 100.0), (128, 900.0), "no critical batch"),
    ],
)
def test_runs_that_say_nothing_are_refused(first, second, why):
    runs = [ToTarget(batch=batch, amount=amount) for batch, amount in (first, second)]
    with pytest.raises(ValueError, match=why):
        recipe_of(runs)


def test_many_runs_find_a_recipe_and_one_wild_run_does_not_bend_it():
    runs = [run(USUAL, batch) for batch in (128, 512, 1024, 4096, 16384)]
    recipe = recipe_of([*runs, ToTarget(batch=2048, amount=9e6)])
    assert recipe.amount(2048) == pytest.approx(USUAL.amount(2048), rel=0.1)


def test_larger_batches_take_more_samples():
    assert USUAL.amount(4000) > USUAL.amount(400)


def test_no_row_of_a_batch_that_is_left_out_enters_its_prediction():
    """Rows of the left-out batch are made absurd: what is predicted stays."""
    rows = results_of("flux1")
    batch = sorted({r["global_batch"] for r in rows})[2]
    absurd = {"samples_to_target": 1.0, "minutes": 1e9}
    poisoned = {"result": [r | absurd if r["global_batch"] == batch else r for r in rows]}
    few = {"result": rows}
    clean = goals.samples_to_target(few, few)
    dirty = goals.samples_to_target(poisoned, few)
    row = f"batch {batch:g}"
    before, after = ([m for m in f.misses if m.row.endswith(row)] for f in (clean, dirty))
    assert before
    assert before == after


def test_one_unit_serves_our_rows_and_the_tested_ones():
    """Most rows of a recipe have samples, and the few that are tested have epochs as well."""
    rows = results_of("flux1")
    in_epochs = [
        r | {"samples_to_target": 0.0, "epochs_to_target": r["samples_to_target"] / 1e6}
        for r in rows[:2]
    ]
    tested = [*in_epochs, *rows[2:4]]
    outcome = goals.samples_to_target({"result": rows[2:]}, {"result": tested})
    assert {miss.measured > 1e5 for miss in outcome.misses} == {True}


def test_one_run_has_the_usual_critical_batch():
    assert fit_recipe([run(USUAL, 500)]).critical_batch == pytest.approx(500 * 4.5, rel=0.05)
