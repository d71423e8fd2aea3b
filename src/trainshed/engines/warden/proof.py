"""Lets a warden and its launcher prove to each other that they belong to the same attempt.

The launcher sends a nonce to every caller.  The warden answers with its own nonce and a proof: an
HMAC of both nonces, keyed with the attempt's secret.  The launcher checks this proof and sends its
own proof.  The secret itself is never sent, and a recorded proof is useless for other nonces.  A
program without the secret gets no message from a launcher or a warden.

This module implements HMAC-SHA256 (RFC 2104) because the standard module ``hmac`` loads OpenSSL,
which takes 4 MB in every warden.
"""

import os
from collections.abc import Callable
from typing import Any, Final

#: The lengths of a nonce and of a proof, in bytes.
NONCE: Final = 32
PROOF: Final = 32
_BLOCK: Final = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def is_secret(text: str) -> bool:
    """Return whether a text can be the secret of an attempt."""
    return 1 <= len(text.encode()) <= _BLOCK


def new_nonce() -> bytes:
    """Return a random nonce, which one end of one connection uses."""
    return os.urandom(NONCE)


def prove_warden(secret: str, launcher_nonce: bytes, warden_nonce: bytes) -> bytes:
    """Return the proof that a warden sends to its launcher."""
    return compute_hmac(secret.encode(), b"warden" + launcher_nonce + warden_nonce)


def prove_launcher(secret: str, launcher_nonce: bytes, warden_nonce: bytes) -> bytes:
    """Return the proof that a launcher sends to one of its wardens."""
    return compute_hmac(secret.encode(), b"launcher" + launcher_nonce + warden_nonce)


def compute_hmac(key: bytes, message: bytes) -> bytes:
    """Return the HMAC-SHA256 of a message.  Raises ValueError for a key of more than 64 bytes."""
    if len(key) > _BLOCK:
        raise ValueError(f"a key must have at most {_BLOCK} bytes, got {len(key)}")
    padded = key.ljust(_BLOCK, b"\0")
    inner = _sha256(padded.translate(_INNER) + message)
    return _sha256(padded.translate(_OUTER) + inner)


def _sha256(data: bytes) -> bytes:
    digest: bytes = _find_sha256()(data).digest()
    return digest


def _find_sha256() -> Callable[[bytes], Any]:
    """Return SHA-256 of the interpreter; the name of its module depends on the version."""
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            sha256: Callable[[bytes], Any] = __import__(name).sha256
        except ImportError:
            continue
        return sha256
    raise ImportError("this Python has no SHA-256: use another interpreter on the nodes")
