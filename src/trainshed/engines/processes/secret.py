"""A secret that two processes of ours share, and its comparison.

``hmac`` and ``secrets`` are not imported: they load OpenSSL, 4 MB in every supervisor and warden.
"""

import os
from typing import Final

_BYTES: Final = 32


def new_secret() -> str:
    """A random secret of 32 bytes, in hexadecimal digits."""
    return os.urandom(_BYTES).hex()


def is_same(left: bytes, right: bytes) -> bool:
    """Compare in a time that does not depend on where the two differ."""
    difference = len(left) ^ len(right)
    for one, other in zip(left, right):
        difference |= one ^ other
    return difference == 0
