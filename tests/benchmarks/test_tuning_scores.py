"""What the benchmark of searches counts: scores, hypervolumes, regrets, ranks and intervals."""

import math

import numpy as np
import pytest
from benchmarks.tuning.metrics import hypervolume
from benchmarks.tuning.problems import problem
from benchmarks.tuning.regrets import LEAST, MOST, difference_of, regrets_of
from benchmarks.tuning.runs import Cell, Run
from benchmarks.tuning.scores import Measured, report_of, scores
from benchmarks.tuning.tables import blocks, random_goals, rank_goals


def exact(*values):
    return Measured(exact=values, reported=values)


def run(peer, *best, seed=0, name="branin"):
    cell = Cell(problem=name, parallel=1, trials=len(best), seed=seed)
    return Run(peer=peer, version="1", cell=cell, best=best, cpu_s=1.0)


def test_a_hypervolume_is_the_area_below_the_reference_that_points_dominate():
    points = [(1.0, 3.0), (2.0, 2.0), (2.5, 2.5), (3.0, 1.0), (9.0, 0.0)]
    reference = np.array([4.0, 4.0])
    assert hypervolume(np.array(points), reference) == pytest.approx(1 * 1 + 1 * 2 + 1 * 3)
    assert hypervolume(np.empty((0, 2)), reference) == 0


def test_a_dense_front_of_zdt1_has_the_largest_hypervolume():
    target = problem("zdt1", 0)
    front = [(x, 1 - math.sqrt(x)) for x in np.linspace(0, 1, 201)]
    assert hypervolume(np.array(front), np.array(target.reference)) == pytest.approx(
        -target.floor, rel=1e-2
    )


def test_a_noisy_search_has_the_exact_value_of_the_trial_that_reported_the_best():
    target = problem("ackley-4-noisy", 0)
    trials = [
        Measured(exact=(3.0,), reported=(2.0,)),
        Measured(exact=(1.0,), reported=(2.5,)),
        Measured(exact=(5.0,), reported=(1.0,)),
    ]
    assert scores(target, trials) == (3.0, 3.0, 5.0)


def test_noise_depends_on_the_seed_and_the_number_of_a_trial():
    target = problem("ackley-4-noisy", 0)
    first = report_of(target, (3.0,), 1, 2)
    assert first == report_of(target, (3.0,), 1, 2)
    assert first.exact == (3.0,)
    assert len({report_of(target, (3.0,), 1, number).reported for number in range(5)}) == 5


def test_only_feasible_trials_count_where_there_are_limits():
    target = problem("branin-disk", 0)
    trials = [exact(1.0, 51.0), exact(7.0, 50.0), exact(math.nan, 0.0), exact(2.0, 3.0)]
    assert scores(target, trials) == (math.inf, 7.0, 7.0, 2.0)


def test_an_objective_to_maximise_is_turned():
    target = problem("diabetes-trees-limit", 0)
    assert scores(target, [exact(0.4, 300.0), exact(0.5, 301.0)]) == (-0.4, -0.4)


def test_a_regret_lies_between_its_least_and_its_most():
    table = regrets_of([run("ours", math.inf, 0.397887), run("random", 5.0, 5.0)])
    (own,), (other,) = (paths.values() for paths in table.by_peer.values())
    assert own[0] == MOST
    assert own[1] == LEAST
    assert 0 < other[0] < 1


def test_equal_peers_share_ranks_and_missing_searches_change_nothing():
    runs = [run("ours", 1.0, seed=s) for s in range(4)]
    runs += [run("ax", value, seed=s) for s, value in enumerate([0.5, 1.0])]
    runs += [run("random", 2.0, seed=s) for s in range(4)]
    table = regrets_of(runs)
    assert table.ranks == {"ours": 1.75, "ax": 1.25, "random": 3.0}


def test_a_peer_that_searched_few_problems_has_no_rank_and_changes_none():
    names = ("branin", "hartmann-6", "levy-4", "rosenbrock-4")
    peers = (("ours", 10.0), ("ax", 20.0))
    runs = [run(peer, value, name=name) for name in names for peer, value in peers]
    runs.append(run("smac", 5.0))
    table = regrets_of(runs)
    assert table.ranks == {"ours": 1.0, "ax": 2.0}
    assert any(line.startswith("  smac") for line in blocks(table, runs, by_problem=False))


def test_a_peer_with_one_seed_of_each_problem_has_a_rank():
    runs = [run("ours", 1.0, seed=s) for s in range(10)]
    assert regrets_of([*runs, run("smac", 0.5)]).ranks == {"ours": 2.0, "smac": 1.0}


def test_the_interval_has_the_mean_of_the_differences_and_shrinks_with_pairs():
    few = difference_of([(1.0, 10.0), (10.0, 10.0)] * 3)
    many = difference_of([(1.0, 10.0), (10.0, 10.0)] * 100)
    assert many.mean == pytest.approx(-0.5)
    assert few.low < many.low < -0.5 < many.high < few.high
    assert (few.pairs, many.pairs) == (6, 200)
    assert difference_of([]) is None


def test_a_rank_behind_the_best_peer_and_a_problem_behind_random_are_missed_goals():
    runs = [run("ours", *[30.0] * 20, seed=s) for s in range(3)]
    runs += [run("random", *[3.0] * 20, seed=s) for s in range(3)]
    table = regrets_of(runs)
    rank, all_ranks = rank_goals(table)
    (random,) = random_goals(table)
    assert not rank.holds
    assert not all_ranks.holds
    assert not random.holds
    assert random.name.startswith("branin, one at a time")
    text = "\n".join(blocks(table, runs, by_problem=True))
    assert "few dimensions" in text
    assert "\nbranin\n" in text
