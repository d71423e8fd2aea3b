"""Lets a warden and its launcher prove to each other that they belong to the same attempt.

The launcher sends a nonce to every caller.  The warden answers with its own nonce and a proof: an
HMAC of both nonces, keyed with the attempt's secret.  The launcher checks it and sends its own
proof.  The secret itself is never sent, a recorded proof is useless for other nonces, and a program
without the secret learns nothing at either end.

HMAC-SHA256 as in RFC 2104 is written here because the module ``hmac`` loads OpenSSL, 4 MB in every
warden.
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
    """Return a random nonce for one connection and one side."""
    return os.urandom(NONCE)


def of_warden(secret: str, launcher_nonce: bytes, warden_nonce: bytes) -> bytes:
    """Return the proof of a warden for a launcher with this nonce."""
    return mac(secret.encode(), b"warden" + launcher_nonce + warden_nonce)


def of_launcher(secret: str, launcher_nonce: bytes, warden_nonce: bytes) -> bytes:
    """Return the proof of the launcher for a warden with this nonce."""
    return mac(secret.encode(), b"launcher" + launcher_nonce + warden_nonce)


def mac(key: bytes, message: bytes) -> bytes:
    """Return the HMAC-SHA256 of a message; the key has at most the length of a block."""
    if len(key) > _BLOCK:
        raise ValueError(f"a key must have at most {_BLOCK} bytes, got {len(key)}")
    padded = key.ljust(_BLOCK, b"\0")
    inner = _sha256(padded.translate(_INNER) + message)
    return _sha256(padded.translate(_OUTER) + inner)


def _sha256(data: bytes) -> bytes:
    digest: bytes = _find_sha256()(data).digest()
    return digest


def _find_sha256() -> Callable[[bytes], Any]:
    """Return the interpreter's own SHA-256; the module's name depends on the version."""
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            sha256: Callable[[bytes], Any] = __import__(name).sha256
        except ImportError:
            continue
        return sha256
    raise ImportError("this Python has no SHA-256")
