"""A certificate authority for one run, which is not added to the machine's trusted authorities.

Its key and the key of its certificates stay in memory.  OpenSSL reads keys from files only, so they
are written to a file in memory (``memfd``).
"""

import os
import ssl
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from trainshed.service.auth.certificates import begin_certificate, key_usage

#: The validity of certificates: longer than any expected ``trainshed run``.
LIFE: Final = timedelta(days=365)
#: A client that accepts both gets HTTP/1.1: no port of the server answers REST over HTTP/2.
PROTOCOLS: Final = ("http/1.1", "h2")


class Authority:
    """Makes certificates for names.  Thread-safe."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._now = datetime.now(UTC)
        name, key = "Trainshed run", self._key.public_key()
        self._certificate = (
            begin_certificate(name, key, None, self._now, self._now + LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.context_of = lru_cache(maxsize=64)(self._context_of)

    @property
    def certificate(self) -> bytes:
        """Return the certificate of the authority as PEM."""
        return self._certificate.public_bytes(Encoding.PEM)

    def _context_of(self, host: str) -> ssl.SSLContext:
        """Make the TLS context for handshakes as ``host``."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(list(PROTOCOLS))
        key = self._leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        handle = os.memfd_create("certificate")
        try:
            os.write(handle, key + self._leaf(host))
            context.load_cert_chain(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
        return context

    def _leaf(self, host: str) -> bytes:
        issuer = self._certificate, self._key.public_key()
        ends = self._now + LIFE
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        return (
            begin_certificate("Trainshed", self._leaf_key.public_key(), issuer, self._now, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(signs_certificates=False), critical=True)
            .add_extension(usage, critical=False)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
            .public_bytes(Encoding.PEM)
        )
