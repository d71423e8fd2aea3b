"""Makes and compares the secret that two processes of Trainshed share.

This module does not import ``hmac`` and ``secrets``: they load OpenSSL, which takes 4 MB of memory
in every supervisor and warden.
"""

import os
from typing import Final

_BYTES: Final = 32


def new_secret() -> str:
    """Return a random secret of 32 bytes, in hexadecimal digits."""
    return os.urandom(_BYTES).hex()


def is_same(left: bytes, right: bytes) -> bool:
    """Compare two secrets in a time that does not depend on where they differ."""
    difference = len(left) ^ len(right)
    for left_byte, right_byte in zip(left, right):
        difference |= left_byte ^ right_byte
    return difference == 0
