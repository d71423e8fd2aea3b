"""The N1 x GPU table follows from the caps, cell by cell, as the documents print it."""

import pytest

from trainshed import catalog
from trainshed.catalog.rows import rows

TYPES = ("K80", "P4", "P100", "T4", "V100")
ROWS = rows("n1_gpu_table", "row")


@pytest.fixture(scope="module")
def newest():
    return catalog.load("2020-08")


def test_the_printed_table_has_85_cells():
    assert len(ROWS) * len(TYPES) == 85


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["machine"])
@pytest.mark.parametrize("name", TYPES)
def test_a_cell_follows_from_the_caps(newest, row, name):
    machine = newest.machines[row["machine"]]
    accelerator = newest.accelerator(f"NVIDIA_TESLA_{name}")
    assert list(newest.fitting_counts(machine, accelerator)) == row[name]


@pytest.mark.parametrize("row", rows("n1_gpu_table", "a2_row"), ids=lambda row: row["machine"])
def test_an_a2_row_has_exactly_its_own_a100s(newest, row):
    machine = newest.machines[row["machine"]]
    a100 = newest.accelerator("NVIDIA_TESLA_A100")
    assert list(newest.fitting_counts(machine, a100)) == row["A100"]


def test_no_n1_machine_takes_an_a100(newest):
    a100 = newest.accelerator("NVIDIA_TESLA_A100")
    n1 = [m for m in newest.machines.values() if m.family == "n1"]
    assert n1
    assert not any(newest.fitting_counts(machine, a100) for machine in n1)
