"""The texts by which programs get their values: argparse must read the same again."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.trials import text_of

NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (32.0, "32"),
        (-3, "-3"),
        (0.1, "0.1"),
        (-0.5, "-0.5"),
        (1e-05, "1e-05"),
        (-1e-05, "-0.00001"),
        (-1.5e-07, "-0.00000015"),
        (-0.0, "0"),
        (1e15, "1000000000000000"),
        (1e22, "1e+22"),
        (-1e22, "-10000000000000000000000"),
        (2**63, "9223372036854775808"),
        ("relu", "relu"),
        ("32.0", "32.0"),
    ],
)
def test_values_are_written_as_people_write_them(value, text):
    assert text_of(value) == text


@given(NUMBERS)
def test_argparse_reads_every_number_again(value):
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=type(value))
    assert parser.parse_args(["--x", text_of(value)]).x == value


@given(st.integers(-(10**15), 10**15).map(float))
def test_a_whole_float_is_read_as_an_integer(value):
    assert int(text_of(value)) == value
