"""Converts amounts of resources to and from Kubernetes' notation, such as ``500m`` and ``64Mi``.

Manifests have quantities as texts only: the API stores a number as a text, and so would report a
manifest with numbers as changed.
"""

import math
import re
from fractions import Fraction
from typing import Any, Final

_DECIMAL: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", 1)},
}
_BINARY: Final = {f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", 1)}
_FACTORS: Final = {**_DECIMAL, **_BINARY}
#: A number, with a unit or an exponent; ``1E`` has the unit exa, ``1E3`` an exponent.
_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)"
)
_MIB_PER_GB: Final = 1024


def parse_quantity(value: Any) -> Fraction:
    """Parse a quantity, which may be a text or a number.  Raises ValueError for other values."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match = _QUANTITY.fullmatch(str(value)) if is_number or isinstance(value, str) else None
    if match is None:
        raise ValueError(f"a quantity must be like 2, 500m or 64Mi, got {value!r:.100}")
    number, exponent, unit = match.groups()
    return Fraction(number) * Fraction(10) ** int(exponent or 0) * _FACTORS[unit or ""]


def is_same_quantity(left: Any, right: Any) -> bool:
    """Return whether two quantities have the same amount; False if one of them is no quantity."""
    try:
        return parse_quantity(left) == parse_quantity(right)
    except ValueError:
        return False


def write_bytes(count: int) -> str:
    """Write a number of bytes, with the largest binary unit that gives a whole number."""
    units = [unit for unit, factor in _BINARY.items() if count and not count % factor]
    unit = units[-1] if units else ""
    return f"{count // int(_FACTORS[unit])}{unit}"


def write_memory(memory_gb: float) -> str:
    """Write the memory of a machine type: its GB are 1,024 MiB; parts of a MiB are rounded up."""
    return f"{math.ceil(memory_gb * _MIB_PER_GB)}Mi"
