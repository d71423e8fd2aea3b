"""The files that jobs read of the gateway, in a folder of their own: the authorities to trust.

The authorities are the machine's and ours, one file for all jobs.  Variables that name it replace
what a client trusts by itself, so it holds all of that: the machine's own list, and the one that
Python's clients bring.  A renewed authority comes into the same file.
"""

import contextlib
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trainshed.model.gateway import BOTO, BUNDLE
from trainshed.service.gateway.places import FOLDER
from trainshed.service.server_files import PUBLIC, write_file

#: Where distributions keep the machine's list; an interpreter of uv's looks in none of them.
_MACHINE: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
)
#: gsutil trusts a list of its own, and uses the machine's account only where these say so.
_BOTO: Final = """\
[Boto]
ca_certificates_file = {bundle}
[GoogleCompute]
service_account = default
[GSUtil]
software_update_check_period = 0
"""
_OPEN_FOLDER: Final = 0o755


def ensure_bundle(data_dir: Path, authority: Path) -> Path:
    """See that the files are there; the bundle, our authority first.  Raises OSError."""
    folder = data_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(_OPEN_FOLDER)  # whatever the umask is: jobs are other users
    found = dict.fromkeys(each for text in _texts(authority) for each in _CERTIFICATE.findall(text))
    content = b"\n".join(found) + b"\n"
    _write_if_new(folder / BUNDLE, content)
    _write_if_new(folder / BOTO, _BOTO.format(bundle=folder / BUNDLE).encode())
    return folder / BUNDLE


def _write_if_new(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        write_file(path, content, PUBLIC)


def _texts(authority: Path) -> Iterator[bytes]:
    yield authority.read_bytes()
    for path in (_of_machine(), _of_clients()):
        if path is not None:
            with contextlib.suppress(OSError):
                yield path.read_bytes()


def _of_machine() -> Path | None:
    """What SSL_CERT_FILE of the server names, or the machine's list."""
    chosen = ssl.get_default_verify_paths().cafile
    places = [chosen] if chosen else list(_MACHINE)
    return next((path for path in map(Path, places) if path.is_file()), None)


def _of_clients() -> Path | None:
    with contextlib.suppress(ImportError):
        import certifi  # noqa: PLC0415 - comes with the clients, not with us

        return Path(certifi.where())
    return None
