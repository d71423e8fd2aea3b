"""Access tokens that the metadata server gives to the programs of a job.

A token holds the attempt and its expiry, signed with a secret of the data directory.  It has no row
in the store and survives a restart of the server.  It is valid at the gateway only, for the
processes of its own attempt, until the attempt ends.
"""

import base64
import binascii
import hashlib
import hmac
import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.files.server_files import write_first
from trainshed.model.attempt import AttemptKey

#: An hour, as at Google; clients renew a token some minutes earlier.
LIFE_S: Final = 3600
#: The prefix of these tokens only.
PREFIX: Final = "tsa_"
SECRET_FILE: Final = "gateway-secret"  # noqa: S105  # a file's name
_SECRET_BYTES: Final = 32
#: The job's uid, the attempt, the end in seconds since 1970.
_CLAIMS: Final = struct.Struct(">QIQ")


class Grant(NamedTuple):
    """The content of a token with a valid signature."""

    key: AttemptKey
    ends_at_s: int


class AttemptTokens:
    """Makes and verifies tokens of attempts."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def of(cls, data_dir: Path) -> "AttemptTokens":
        """Use the secret of a data directory, which its servers share.  Raises OSError."""
        path = data_dir / SECRET_FILE
        if not path.exists():
            write_first(path, os.urandom(_SECRET_BYTES))
        return cls(path.read_bytes())

    def make(self, key: AttemptKey, now_s: float) -> str:
        """Make a token that is valid for ``LIFE_S`` seconds from now."""
        claims = _CLAIMS.pack(key.uid, key.attempt, int(now_s) + LIFE_S)
        return PREFIX + base64.urlsafe_b64encode(claims + self._sign(claims)).decode().rstrip("=")

    def read(self, text: str) -> Grant | None:
        """Return the content of a token; None for one that this installation did not make."""
        if not text.startswith(PREFIX):
            return None
        body = text.removeprefix(PREFIX)
        try:
            token = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        claims, signed = token[: _CLAIMS.size], token[_CLAIMS.size :]
        if not hmac.compare_digest(signed, self._sign(claims)):
            return None
        uid, attempt, ends_at_s = _CLAIMS.unpack(claims)
        return Grant(AttemptKey(uid, attempt), ends_at_s)

    def _sign(self, claims: bytes) -> bytes:
        return hmac.digest(self._secret, claims, hashlib.sha256)
