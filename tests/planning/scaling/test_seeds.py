"""Examples of the source documents, as ``benchmarks/scaling/seeds.toml`` has them.

The measured step with a ring and with reducers, one hour on 256 and the refusal of 1,024 are in
``test_predict.py``; a model that gains nothing from a GPU is in the tests of gpu-check.
"""

import pytest
from benchmarks.planning import goals_seeds as seeds


def test_every_figure_is_answered():
    lines = seeds.seeds(None).lines
    assert len(lines) == 7
    assert [line.name for line in lines if not all(g.holds for g in line.goals)] == []


def test_a_step_that_gains_more_than_the_count_is_named_and_fitted():
    curve = seeds.alexnet()
    assert max(abs(point.error) for point in curve.points) < 0.06
    assert len(curve.points) == 4
    (sentence,) = curve.offending
    assert "from 2 to 4 accelerators" in sentence


def test_two_figures_are_a_curve_with_its_efficiency():
    curve = seeds.curve_of(seeds.times({1: 1.0, 1024: 256 / 2.2}))
    assert curve.points[-1].efficiency == pytest.approx(0.11, abs=0.005)
    assert not curve.offending


def test_an_hour_has_its_interval_and_its_efficiency():
    prediction = seeds.one_hour()
    assert 0.95 <= seeds.hours(prediction) <= 1.10
    assert prediction.samples_per_s.holds(90 * 1_281_167 / 3600)


def test_a_fixed_share_explains_46_times_on_512():
    curve = seeds.curve_of(seeds.times({1: 1.0, 512: 46.5}))
    assert curve.fixed_share == pytest.approx(0.0196, abs=2e-4)
    (limit,) = curve.remarks
    assert limit.startswith("46.5 times one on 512 accelerators is a fixed share of 1.96 %")
    assert limit.endswith("no count is more than 51 times as fast as one")
    assert seeds.curve_of(seeds.times({8: 100.0, 16: 190.0})).fixed_share is None
    assert seeds.curve_of(seeds.times({8: 100.0, 64: 90.0})).fixed_share is None, "it falls"


def test_a_curve_that_falls_is_fitted_and_said():
    curve = seeds.curve_of(seeds.times({8: 1531.9, 16: 546.9}))
    assert curve.offending == ("from 8 to 16 accelerators throughput falls to 0.36 of what it was",)
    one = seeds.curve_of(seeds.times({4: 10.0}))
    assert one.points[0].efficiency == 1
