import numpy as np

from trainshed.tuning.cube import WORD_FEATURE, Cube, CubeAxis

NAN = np.nan
TREE = Cube(
    [
        CubeAxis(positions=(0.25, 0.75), is_category=True),
        CubeAxis(positions=(0.1, 0.5, 0.9), parent=0, parent_positions=frozenset({0.75})),
        CubeAxis(parent=1, parent_positions=frozenset({0.1, 0.9})),
        CubeAxis(parent=0, parent_positions=frozenset({0.75})),
        CubeAxis(),
    ]
)


def test_rows_are_snapped_to_positions_and_lose_inactive_coordinates_at_any_depth():
    rows = [[0.1, 0.2, 0.3, 0.4, 1.5], [0.9, 0.2, 0.3, 0.4, -1.0], [0.8, 0.6, 0.3, 0.4, 0.5]]
    points = [[0.25, NAN, NAN, NAN, 1.0], [0.75, 0.1, 0.3, 0.4, 0.0], [0.75, 0.5, NAN, 0.4, 0.5]]
    assert np.array_equal(TREE.snap(np.array(rows)), np.array(points), equal_nan=True)


def test_a_word_has_a_feature_of_its_own_and_inactive_numbers_are_in_the_middle():
    points = np.array([[0.25, NAN, NAN, NAN, 1.0], [0.75, 0.1, 0.3, 0.4, 0.0]])
    features = [[WORD_FEATURE, 0.0, 0.5, 0.5, 0.5, 1.0], [0.0, WORD_FEATURE, 0.1, 0.3, 0.4, 0.0]]
    assert TREE.features(points).tolist() == features


def test_an_inactive_category_has_no_word():
    child = CubeAxis(
        positions=(0.25, 0.75), is_category=True, parent=0, parent_positions=frozenset({0.1})
    )
    cube = Cube([CubeAxis(positions=(0.1, 0.9)), child])
    assert cube.features(np.array([[0.9, NAN]])).tolist() == [[0.9, 0.0, 0.0]]


def test_neighbours_differ_in_one_listed_axis():
    row = np.array([0.25, 0.5, 0.3, 0.4, 0.6])
    neighbours = TREE.neighbours(row, np.random.default_rng(0))
    assert (neighbours != row).sum(axis=1).tolist() == [1, 1, 1]
    assert {tuple(neighbour[:2]) for neighbour in neighbours} == {
        (0.75, 0.5),
        (0.25, 0.1),
        (0.25, 0.9),
    }


def test_without_listed_axes_there_are_no_neighbours():
    assert Cube([CubeAxis()] * 2).neighbours(np.zeros(2), np.random.default_rng(0)).shape == (0, 2)
