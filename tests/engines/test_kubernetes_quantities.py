"""Amounts of resources keep their value in any notation that Kubernetes writes."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.kubernetes.quantities import (
    is_same_quantity,
    parse_quantity,
    write_bytes,
    write_memory,
)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0), ("2", 2), (2, 2), (1.5, Fraction(3, 2)), ("500m", Fraction(1, 2)),
        ("64Mi", 64 * 1024**2), ("1.5Gi", 3 * 1024**3 // 2), ("1k", 1000), ("1E", 10**18),
        ("1E3", 1000), ("1e3", 1000), ("12e-3", Fraction(12, 1000)), ("100n", Fraction(1, 10**7)),
        ("1Ei", 1024**6), ("-1", -1), (".5", Fraction(1, 2)),
    ],
)  # fmt: skip
def test_an_amount_is_parsed(text, amount):
    assert parse_quantity(text) == amount


@pytest.mark.parametrize(
    "text", ["", "Mi", "1 Gi", "1GB", "1K", "0x1", "1e", True, None, [], "nan"]
)
def test_other_values_are_refused(text):
    with pytest.raises(ValueError, match="a quantity must be like"):
        parse_quantity(text)


def test_amounts_are_compared_by_value():
    assert is_same_quantity("1", 1)
    assert is_same_quantity("1024Mi", "1Gi")
    assert not is_same_quantity("1000Mi", "1Gi")
    assert not is_same_quantity("1", "one")


@given(st.integers(0, 2**62))
def test_bytes_keep_their_value(count):
    assert parse_quantity(write_bytes(count)) == count


def test_bytes_have_the_largest_whole_unit():
    texts = [write_bytes(count) for count in (0, 1000, 1024, 1 << 30, 3 << 19)]
    assert texts == ["0", "1000", "1Ki", "1Gi", "1536Ki"]


def test_the_memory_of_a_machine_type_is_rounded_up():
    assert [write_memory(gb) for gb in (15.0, 3.75, 0.0001)] == ["15360Mi", "3840Mi", "1Mi"]
