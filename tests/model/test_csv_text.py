"""A spreadsheet that opens a CSV file of ours runs no text of a stranger."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.csv_text import csv_text


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_text_that_a_spreadsheet_would_run_has_an_apostrophe_before_it(first):
    ((cell,),) = csv.reader(io.StringIO(csv_text([[f"{first}HYPERLINK(1)"]]), newline=""))
    assert cell == f"'{first}HYPERLINK(1)"


@pytest.mark.parametrize(
    "value", [-1, -0.5, "-1e-05", "+3", "-inf", "1=2", "a-b", "me@example.com"]
)
def test_numbers_and_other_texts_stay_as_they_are(value):
    assert csv_text([[value]]) == f"{value}\n"


@given(st.lists(st.lists(st.text(), min_size=2, max_size=3), min_size=1))
def test_a_reader_of_csv_finds_each_cell_again(rows):
    read = list(csv.reader(io.StringIO(csv_text(rows), newline="")))
    assert [[cell.removeprefix("'") for cell in row] for row in read] == [
        [cell.removeprefix("'") for cell in row] for row in rows
    ]
