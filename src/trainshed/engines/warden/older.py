"""What our sources use and Python 3.9 lacks; the archive's modules import it from here."""

import itertools
import sys
from collections.abc import Iterator
from typing import Any

if sys.version_info >= (3, 11):  # noqa: UP036 - nodes have older ones
    from types import NoneType, UnionType
    from typing import Self

    zip = zip  # noqa: A001, PLW0127 - what an older one lacks is a word of it
else:
    NoneType = type(None)
    Self = Any

    class UnionType:
        """No union is one: archives have unions of ``typing``."""

    _MISSING = object()

    def zip(*several: Any, strict: bool = False) -> Iterator[tuple[Any, ...]]:  # noqa: A001
        """As the builtin, which learned ``strict`` in 3.10."""
        for row in itertools.zip_longest(*several, fillvalue=_MISSING):
            if any(cell is _MISSING for cell in row):
                if strict:
                    raise ValueError("one is shorter than another")
                return
            yield row


__all__ = ["NoneType", "Self", "UnionType", "zip"]
