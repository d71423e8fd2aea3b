"""Writes the gateway's files for jobs: the bundle of CA certificates, and client settings.

The bundle is one file for all jobs.  The variables that name it replace a client's own list of CAs.
So it holds our CA, those that the server's variables name, the machine's list, and the list of
Python's clients.  It is written again when one of these has changed.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from trainshed.files.server_files import PUBLIC, write_file
from trainshed.model.gateway import AUTHORITY, BOTO, BUNDLE, CURLRC
from trainshed.service.gateway.places import FOLDER, LEAF, NAMES

#: Variables that name a client's CA bundle.
_NAMED: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
#: Paths of the machine's list in Linux distributions.
_MACHINE: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
)
#: gsutil has a CA list of its own, uses the VM's account only with these settings, and would retry
#: for a quarter of an hour.
_BOTO: Final = """\
[Boto]
ca_certificates_file = {bundle}
num_retries = 6
max_retry_delay = 8
[GoogleCompute]
service_account = default
[GSUtil]
software_update_check_period = 0
"""
_OPEN_FOLDER: Final = 0o755
#: An older certificate is checked, and renewed if it is due, before it is used.
_AGE_S_MAX: Final = 300 * 86_400.0


def ensure_certified(data_dir: Path) -> Path:
    """Make the bundle and the gateway's certificate if they are missing; return the path.

    Certificates are not checked here: that takes longer than to start a job.  Raises OSError.
    """
    folder = data_dir / "tls"
    bundle = data_dir / FOLDER / BUNDLE
    certificate = folder / f"{LEAF}.pem"
    is_made = all(path.is_file() for path in (certificate, folder / f"{LEAF}.key"))
    if (
        not is_made
        or not is_current(bundle)
        or time.time() - certificate.stat().st_mtime > _AGE_S_MAX
    ):
        from trainshed.service.auth.certificates import ensure_tls  # noqa: PLC0415  # see above

        ensure_bundle(data_dir, ensure_tls(data_dir, NAMES, leaf=LEAF).ca)
    return bundle


def ensure_bundle(data_dir: Path, authority: Path) -> Path:
    """Write the files and return the path of the bundle; our CA comes first.  Raises OSError."""
    folder = data_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(_OPEN_FOLDER)  # regardless of the umask: jobs run as other users
    sources = _sources()
    texts = (authority.read_bytes(), *_texts((*sources, *_client_sources())))
    certificates = dict.fromkeys(pem for text in texts for pem in _CERTIFICATE.findall(text))
    write_file(folder / AUTHORITY, texts[0], PUBLIC)
    write_file(folder / CURLRC, f'cacert = "{folder / BUNDLE}"\n'.encode(), PUBLIC)
    write_file(folder / BUNDLE, b"\n".join((_mark(sources), *certificates, b"")), PUBLIC)
    write_file(folder / BOTO, _BOTO.format(bundle=folder / BUNDLE).encode(), PUBLIC)
    return folder / BUNDLE


def is_current(bundle: Path) -> bool:
    """Whether the bundle exists, and its sources have not changed."""
    sources = _sources()
    try:
        with bundle.open("rb") as file:
            made_of = file.readline().rstrip(b"\n")
        made_at = bundle.stat().st_mtime
        is_newest = all(os.stat(path).st_mtime <= made_at for path in sources)  # noqa: PTH116 - cheaper
    except OSError:
        return False
    return is_newest and made_of == _mark(sources)


def _mark(sources: Sequence[str]) -> bytes:
    return b"# made of " + os.pathsep.join(sources).encode(errors="replace")


def _sources() -> list[str]:
    """List the machine's CA files, without those of Python's clients."""
    named = (os.environ.get(name, "") for name in _NAMED)
    machine = next(filter(os.path.isfile, _MACHINE), "")
    return [path for path in dict.fromkeys((*named, machine)) if os.path.isfile(path)]  # noqa: PTH113 - as above


def _texts(paths: Sequence[str]) -> Iterator[bytes]:
    for path in paths:
        with contextlib.suppress(OSError):
            yield Path(path).read_bytes()


def _client_sources() -> Iterator[str]:
    with contextlib.suppress(ImportError):
        import certifi  # noqa: PLC0415 - the clients install it, Trainshed does not

        yield certifi.where()
