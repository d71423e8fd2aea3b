"""Makes and compares the secret that two processes of Trainshed share.

``hmac`` and ``secrets`` are not used: they load OpenSSL, 4 MB in every supervisor and warden.
"""

import os
from typing import Final

_BYTES: Final = 32


def new_secret() -> str:
    """Return a random secret of 32 bytes, in hexadecimal digits."""
    return os.urandom(_BYTES).hex()


def is_same(left: bytes, right: bytes) -> bool:
    """Compare in a time that does not depend on the first difference."""
    difference = len(left) ^ len(right)
    for left_byte, right_byte in zip(left, right):
        difference |= left_byte ^ right_byte
    return difference == 0
