"""Makes this installation's certificate authority and the certificates of its servers.

gRPC clients of the SDK require TLS and trust the roots in GRPC_DEFAULT_SSL_ROOTS_FILE_PATH.  That
variable, like REQUESTS_CA_BUNDLE, replaces the public roots, so ``ca-bundle.pem`` has them
too.  The server's key is made once, and every renewed certificate belongs to it.  So a server that
reads both files while another one renews them always reads a matching pair.
"""

import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainshed.files.server_files import PUBLIC, alone_in, write_file

CA_LIFE = timedelta(days=3650)
#: The longest validity that all clients accept.
SERVER_LIFE = timedelta(days=825)
#: A certificate with less remaining validity is renewed.
RENEWED_BEFORE = timedelta(days=60)
#: How long before its creation a certificate is valid: clocks of clients may be behind.
_BACKDATED = timedelta(hours=1)

#: The file name, without extension, of the server's own certificate.
SERVER = "server"
ALWAYS = ("localhost", "127.0.0.1", "::1")
#: Names from which on those of earlier starts are dropped: clients get all in each handshake.
_NAMES_MAX = 64
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # left out, not bound
_MARK = b"# Trainshed's own authority, then the public ones\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of the files.  Clients read ``bundle``."""

    ca: Path
    bundle: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class _Pair:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def ensure_tls(
    data_dir: Path, names: Iterable[str], *, leaf: str = SERVER, now: datetime | None = None
) -> TlsFiles:
    """Make the files in ``tls/`` that are missing, expired or without one of the names.

    ``names``: host names and addresses besides loopback's and the machine's own.  Names that the
    certificate has already stay in it, because several servers may share the files.  ``leaf`` is
    the file name of the certificate, without extension.
    """
    folder = data_dir / "tls"
    files = TlsFiles(
        ca=folder / "ca.pem",
        bundle=folder / "ca-bundle.pem",
        certificate=folder / f"{leaf}.pem",
        key=folder / f"{leaf}.key",
    )
    today = now or datetime.now(UTC)
    with alone_in(folder):
        authority = _authority(folder / "ca.key", files.ca, today)
        _server(files, authority, _collect_names([*names, socket.gethostname()]), today)
        _write_if_new(files.bundle, _MARK + files.ca.read_bytes() + public_roots())
    return files


class ServerTls:
    """The certificate in use, which a running server renews.

    A renewed certificate gets a new context: the context of running handshakes is never changed.
    """

    def __init__(
        self,
        data_dir: Path,
        names: Iterable[str],
        leaf: str = SERVER,
        protocols: Sequence[str] = ("http/1.1",),
    ) -> None:
        """Take the arguments of ``ensure_tls``; ALPN offers ``protocols`` in this order."""
        self._data_dir = data_dir
        self._names = tuple(names)
        self._leaf = leaf
        self._protocols = protocols
        self.files = ensure_tls(data_dir, self._names, leaf=leaf)
        self.pair, self.context = self._load()

    @property
    def bundle(self) -> Path | None:
        """The file of the authorities that clients must trust."""
        return self.files.bundle

    def renew(self, *, now: datetime | None = None) -> bool:
        """Renew the certificate if it is due; return whether it was renewed.  Raises OSError."""
        self.files = ensure_tls(self._data_dir, self._names, leaf=self._leaf, now=now)
        if self.files.certificate.read_bytes() == self.pair[1]:
            return False
        self.pair, self.context = self._load()
        return True

    def _load(self) -> "LoadedPair":
        return load_pair(self.files.certificate, self.files.key, self._protocols)


#: The key and the certificate as PEM, and the TLS context of HTTP.
LoadedPair = tuple[tuple[bytes, bytes], ssl.SSLContext]


def load_pair(certificate: Path, key: Path, protocols: Sequence[str]) -> LoadedPair:
    """Load a certificate with its chain, and its key; ALPN offers ``protocols`` in this order.

    Raises OSError for files that cannot be read, do not match, or change meanwhile, and for a key
    with a passphrase.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # few clients resume a session, and each would get two tickets
    context.set_alpn_protocols(list(protocols))
    pair = key.read_bytes(), certificate.read_bytes()
    context.load_cert_chain(certificate, key, password="")  # else it waits for one on the terminal
    if pair != (key.read_bytes(), certificate.read_bytes()):
        raise OSError(f"{certificate} and {key} were changed while they were read; try again")
    return pair, context


def address_of_machine() -> str | None:
    """Return the IPv4 address by which other machines reach this one; sends nothing.

    IPv6 addresses change daily: the settings name those that clients use (``allowed_hosts``).
    """
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return None


def public_roots() -> bytes:
    """Return the public authorities as PEM: the list of certifi if installed, else the system's.

    Return an empty list on a machine that has neither.
    """
    with contextlib.suppress(ImportError):
        import certifi  # noqa: PLC0415  # the clients install it, Trainshed does not

        return Path(certifi.where()).read_bytes()
    path = ssl.get_default_verify_paths().cafile
    return Path(path).read_bytes() if path else b""


def _authority(key_path: Path, path: Path, today: datetime) -> _Pair:
    pair = _read(key_path, path)
    if pair and pair.certificate.not_valid_after_utc - today > RENEWED_BEFORE:
        return pair
    key = ec.generate_private_key(ec.SECP256R1())
    built = (
        begin_certificate(
            "Trainshed local authority", key.public_key(), None, today, today + CA_LIFE
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_key(key_path, key)
    write_file(path, built.public_bytes(Encoding.PEM), PUBLIC)
    return _Pair(key, built)


def _server(files: TlsFiles, authority: _Pair, names: frozenset[str], today: datetime) -> None:
    pair = _read(files.key, files.certificate)
    if pair and _is_good(pair.certificate, authority, names, today):
        return
    key = pair.key if pair else _new_key(files.key)
    all_names = names | (_choose_old_names(pair.certificate) if pair else frozenset())
    ends = min(today + SERVER_LIFE, authority.certificate.not_valid_after_utc)
    signer = authority.certificate, authority.key.public_key()
    built = (
        begin_certificate("Trainshed", key.public_key(), signer, today, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in sorted(all_names)]),
            critical=False,
        )
        .sign(authority.key, hashes.SHA256())
    )
    write_file(files.certificate, built.public_bytes(Encoding.PEM), PUBLIC)


def _choose_old_names(certificate: x509.Certificate) -> frozenset[str]:
    """Return the names of an old certificate; none if it has too many.

    Another server may need them.  A pod has another address after each start.
    """
    names = _names_of(certificate)
    return names if len(names) < _NAMES_MAX else frozenset()


def _is_good(
    certificate: x509.Certificate, authority: _Pair, names: frozenset[str], today: datetime
) -> bool:
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except Exception:  # noqa: BLE001  # for any error, make the certificate again
        return False
    lasts = certificate.not_valid_after_utc - today > RENEWED_BEFORE
    return lasts and names <= _names_of(certificate)


def begin_certificate(
    common: str,
    key: ec.EllipticCurvePublicKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePublicKey] | None,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    """Return a certificate builder; without an issuer, the certificate is self-signed.

    Some clients need both key identifiers.
    """
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    signer = issuer[1] if issuer else key
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer[0].subject if issuer else name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins - _BACKDATED)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the uses of the key of an authority, or of a server."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _read(key_path: Path, path: Path) -> _Pair | None:
    """Return a key and its certificate; None if one is missing or they do not match."""
    try:
        key = load_pem_private_key(key_path.read_bytes(), password=None)
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    return _Pair(key, certificate) if certificate.public_key() == key.public_key() else None


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(path, key)
    return key


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    write_file(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _write_if_new(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        write_file(path, content, PUBLIC)


def _collect_names(names: Iterable[str]) -> frozenset[str]:
    plain = {_without_port(name.lower()) for name in names}
    if plain & _WILDCARDS:
        plain.add(address_of_machine() or "")
    return frozenset({*ALWAYS, *(name for name in plain - _WILDCARDS if name.isascii())})


def _without_port(name: str) -> str:
    """Return ``::1`` for ``[::1]:80`` and ``a`` for ``a:80``; a bare IPv6 address has no port."""
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0] if name.count(":") == 1 else name


def _names_of(certificate: x509.Certificate) -> frozenset[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset({*names.get_values_for_type(x509.DNSName), *map(str, addresses)})


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
