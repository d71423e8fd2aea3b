"""The certificate of a server that another program writes and renews, such as cert-manager.

A server with such a certificate makes none for its clients: it shows what the files have, and reads
them again when they change.
"""

from pathlib import Path
from typing import Final

from trainshed.service.auth.certificates import load_pair

_PROTOCOLS: Final = ("http/1.1",)


class GivenTls:
    """The certificate in use, from the two files of the settings."""

    bundle: Path | None = None
    """Clients trust the authority of the certificate without a file of ours."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the files.  Raises OSError if one cannot be read or they do not match."""
        self._certificate = certificate
        self._key = key
        self.pair, self.context = load_pair(certificate, key, _PROTOCOLS)

    def renew(self) -> bool:
        """Read files that have changed; return whether they had.

        Raises OSError, and keeps the old certificate, if one cannot be read or they do not match.
        """
        if (self._key.read_bytes(), self._certificate.read_bytes()) == self.pair:
            return False
        self.pair, self.context = load_pair(self._certificate, self._key, _PROTOCOLS)
        return True
