"""How a warden and its launcher prove to each other that they are of one attempt.

The launcher sends a nonce to every caller.  The warden answers with a nonce of its own and with
what only the attempt's secret can make of both; the launcher looks at that, and proves itself in
the same way.  The secret never passes the wire, what was heard once is of no use again, and a
stranger at either end learns nothing.

HMAC-SHA256 as in RFC 2104, by hand: the module for it has OpenSSL loaded, 4 MB in every warden.
"""

import os
from collections.abc import Callable
from typing import Any, Final

#: Bytes of a nonce, and of a proof.
NONCE: Final = 32
PROOF: Final = 32
_BLOCK: Final = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def new_nonce() -> bytes:
    """For one call, from one side."""
    return os.urandom(NONCE)


def of_warden(secret: str, launcher_nonce: bytes, warden_nonce: bytes) -> bytes:
    """What a warden proves itself with, to a launcher that has sent a nonce."""
    return mac(secret.encode(), b"warden" + launcher_nonce + warden_nonce)


def of_launcher(secret: str, launcher_nonce: bytes, warden_nonce: bytes) -> bytes:
    """What the launcher proves itself with, to a warden that has sent a nonce."""
    return mac(secret.encode(), b"launcher" + launcher_nonce + warden_nonce)


def mac(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256; keys are no longer than a block of it."""
    if len(key) > _BLOCK:
        raise ValueError(f"a key must have at most {_BLOCK} bytes, got {len(key)}")
    padded = key.ljust(_BLOCK, b"\0")
    inner = _sha256(padded.translate(_INNER) + message)
    return _sha256(padded.translate(_OUTER) + inner)


def _sha256(data: bytes) -> bytes:
    digest: bytes = _hash()(data).digest()
    return digest


def _hash() -> Callable[[bytes], Any]:
    """The interpreter's own, whatever it is called there."""
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            sha256: Callable[[bytes], Any] = __import__(name).sha256
        except ImportError:
            continue
        return sha256
    raise ImportError("this Python has no SHA-256")
