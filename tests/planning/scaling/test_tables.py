"""Tables of measurements: ours are read whole, and each fault of a user's is a sentence."""

from pathlib import Path

import pytest

from trainshed.model.faults import UsageFault
from trainshed.planning.scaling.tables import measured, read

FOLDER = Path(__file__).parents[3] / "benchmarks" / "scaling"
GOOD = '[[series]]\nid = "mine"\npoints = [[1, 1, 100.0], [2, 1, 190.0]]\n'


def with_points(points):
    return f'[[series]]\nid = "mine"\npoints = {points}\n'


def test_the_published_tables_have_no_fault():
    tables = read({path.name: path.read_text() for path in FOLDER.glob("*.toml")})
    assert not tables.faults
    assert len(tables.series) == 472


def test_a_users_table_is_read():
    (series,) = measured(GOOD + "batch_per_acc = 32\n")
    assert [(p.accelerators, p.throughput, p.batch) for p in series.points] == [
        (1, 100.0, 32),
        (2, 190.0, 32),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (with_points("[[1, 1, -3.0]]"), "series mine: points: throughput must be a number over 0"),
        (with_points("[[1, 1, nan]]"), "throughput must be a number over 0, got nan"),
        (with_points("[[1, 1, 5.0], [1, 1, 6.0]]"), "1 accelerators on 1 host are given twice"),
        (with_points("[[4, 1, 5.0], [2, 1, 6.0]]"), "2 accelerators come after 4; sort them"),
        (with_points("[[1, 2, 5.0]]"), "hosts must be 1 to 1"),
        (with_points("[[0, 1, 5.0]]"), "accelerators must be a whole number, 1 to 10000000, got 0"),
        (with_points("[[1, 1, 5.0], [2, 1, 9000.0]]"), "one unit for all points"),
        (with_points("[1, 2]"), "points must be a list of [accelerators, hosts, throughput]"),
        (GOOD + 'colour = "red"\n', "series mine: there is no column colour"),
        (GOOD + 'metric = "samples/s, tokens/s"\n', "metric must be one unit of throughput"),
        (GOOD + 'metric = "seconds"\n', "metric must be one unit of throughput"),
        (GOOD + "batch_per_acc = -8\n", "batch_per_acc must be a number over 0, got -8"),
        (GOOD + "local_batch = [8]\n", "local_batch has 1 values for 2 points"),
        (GOOD + GOOD, "series mine: id is given twice"),
        ('[[series]]\nid = "mine"\n', "series mine: points is missing"),
        ('[[serie]]\nid = "mine"\n', "has no table [[serie]]"),
        ("series = 3\n", "has no table [[series]]"),
        ("", "has no [[series]]"),
        ("[[series", "is not valid TOML"),
        (f"a = {'[' * 5000}", "is not valid TOML"),
        (with_points("[[1e308, 1, 5.0]]"), "accelerators must be a whole number, 1 to 10000000"),
        (with_points("[[1, 1, 1e308]]"), "throughput must be a number over 0, got 1e+308"),
        (with_points(f"[[1, 1, 1{400 * '0'}]]"), "throughput must be a number over 0, got 1000"),
        (GOOD + "batch_per_acc = 1e-308\n", "batch_per_acc must be a number over 0, got 1e-308"),
    ],
)
def test_a_fault_is_a_sentence(text, sentence):
    with pytest.raises(UsageFault) as fault:
        measured(text, "mine.toml")
    assert sentence in str(fault.value)


def test_a_row_with_a_fault_leaves_the_others():
    tables = read({"t": GOOD + '[[series]]\nid = "bad"\npoints = []\n'})
    assert [series.id for series in tables.series] == ["mine"]
    assert len(tables.faults) == 1
