"""The search for the best candidate: its order, and how often a candidate is scored."""

from dataclasses import replace

import numpy as np
import pytest

from trainshed.tuning.candidates import QUICK, Search, TrustRegion
from trainshed.tuning.cube import Cube, CubeAxis

AXES = (CubeAxis(), CubeAxis(positions=(0.1, 0.3, 0.5)), CubeAxis())


class Bowl:
    """The negative distance from a point, which counts the rows that it scores, and its slopes."""

    def __init__(self):
        self.scored = self.sloped = 0

    def score(self, features):
        self.scored += len(features)
        return -np.sum((features - 0.3) ** 2, axis=1)

    def slopes(self, features):
        self.sloped += 1
        away = features - 0.3
        return -np.sum(away**2, axis=1), -2.0 * away


def ranked(bowl, *, scores_again=False, effort=QUICK):
    cube = Cube(AXES)
    whole = TrustRegion(low=np.zeros(3), high=np.ones(3))
    rng = np.random.default_rng(1)
    search = Search(
        cube=cube,
        acquisition=bowl,
        region=whole,
        rng=rng,
        effort=effort,
        scores_again=scores_again,
    )
    return search.rank(np.full((1, 3), 0.5))


@pytest.mark.parametrize("scores_again", [False, True])
def test_candidates_are_ranked_and_the_best_was_climbed_to(scores_again):
    rows = ranked(Bowl(), scores_again=scores_again)
    assert rows[0] == pytest.approx([0.3, 0.3, 0.3], abs=1e-6)
    assert (np.diff(Bowl().score(rows)) <= 0).all()


def test_a_candidate_is_scored_once_except_by_the_first_rule():
    once, again = Bowl(), Bowl()
    rows = ranked(once, scores_again=False)
    assert once.scored == len(rows)
    assert ranked(again, scores_again=True) == pytest.approx(rows)
    assert again.scored > 2 * once.scored


class Valley(Bowl):
    """A bowl with a flat bottom, to which a climb takes many steps."""

    def slopes(self, features):
        self.sloped += 1
        away = (features - 0.3) ** 3
        return -np.sum(away * (features - 0.3), axis=1), -4.0 * away


def test_a_climb_ends_when_a_step_gains_little():
    to_the_end, quick = Valley(), Valley()
    ranked(to_the_end)
    ranked(quick, effort=replace(QUICK, climb_gain_min=0.01))
    assert quick.sloped < to_the_end.sloped
