"""How the values of a trial are written on a command line."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.trials import format_short, text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (32.0, "32"),
        (-0.0, "0"),
        (3, "3"),
        (2**60, "1152921504606846976"),
        (0.1, "0.1"),
        (1e-05, "1e-05"),
        (-1e-05, "-0.00001"),
        (9.1e15, "9100000000000000"),
        (-9.1e15, "-9100000000000000"),
        (-1.5e-07, "-0.00000015"),
        (1e300, "1e+300"),
        ("adam", "adam"),
        ("1.0", "1.0"),
    ],
)
def test_a_value_is_written_as_a_person_would(value, text):
    assert text_of(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_a_number_is_read_back_exactly_by_argparse_too(value):
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=type(value) if isinstance(value, int) else float)
    assert parser.parse_args(["--x", text_of(value)]).x == value


@given(st.integers(-(10**15), 10**15).map(float))
def test_a_whole_float_is_read_as_an_integer(value):
    assert int(text_of(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.9887955182, "0.988796"), (1234567.0, "1234567"), (1234567, "1234567"), (1e-5, "1e-05"),
     (-0.5, "-0.5"), (1e300, "1e+300"), ("0.98879551", "0.98879551")],
)  # fmt: skip
def test_numbers_are_read_with_six_digits(value, text):
    assert format_short(value) == text
