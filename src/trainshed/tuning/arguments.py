"""How a trial's values are written on its program's command line (R19).

``argparse`` takes ``-1e-05`` for an option and not for a number, and programs read a batch size of
``32.0`` with ``int``: so no exponents below zero, and no ``.0``.
"""

from decimal import Decimal
from typing import Final

from trainshed.model.trials import Value

#: From here on whole floats are not all exact, and are written as Python does.
_WHOLE_MAX: Final = 1e16


def text_of(value: Value) -> str:
    """The shortest text from which the same value is read; words stay as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (value.is_integer() and abs(value) < _WHOLE_MAX):
        return str(int(value))
    return repr(value) if value > 0 else format(Decimal(repr(value)), "f")
