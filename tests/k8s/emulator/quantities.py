"""Amounts of resources (``500m``, ``2Gi``): parsed, added and written as the API server does."""

import re
from fractions import Fraction

_FACTORS = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_DECIMAL = ("E", "P", "T", "G", "M", "k")


def parse_quantity(value: str | float) -> Fraction:
    """The amount; ValueError where the text is no quantity."""
    match = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)", str(value))
    if match is None or match.group(2) not in _FACTORS:
        raise ValueError(f"no quantity: {value}")
    return Fraction(match.group(1)) * _FACTORS[match.group(2)]


def write_quantity(amount: Fraction, *, is_binary: bool = False) -> str:
    """Text of an amount: milli units below one, then the largest suffix that leaves a whole."""
    if amount.denominator != 1:
        return f"{-((-amount * 1000) // 1)}m"
    for suffix in _BINARY if is_binary else _DECIMAL:
        factor = _FACTORS[suffix]
        if amount and amount % factor == 0:
            return f"{amount // factor}{suffix}"
    return str(amount.numerator)
