"""A server whose settings name a certificate: it shows that one, and makes no authority."""

import shutil
import ssl
from urllib.parse import urlsplit

import pytest

from server_process import ServerProcess
from trainshed.service.auth.certificates import ensure_tls

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_server_shows_the_certificate_of_its_settings(tmp_path):
    given = ensure_tls(tmp_path / "authority", [])
    data = tmp_path / "data"
    (data / "tls").mkdir(parents=True)
    shutil.copy(given.ca, data / "tls" / "ca.pem")  # what ServerProcess trusts
    lines = (
        "[server]",
        "https = true",
        f'tls_certificate = "{given.certificate}"',
        f'tls_key = "{given.key}"',
    )
    (data / "config.toml").write_text("\n".join(lines))
    server = ServerProcess(data)
    try:
        server.start()
        authorities = str(given.ca)
        for address in (urlsplit(server.url).netloc, server.grpc):
            host, _, port = address.rpartition(":")
            shown = ssl.get_server_certificate((host, int(port)), ca_certs=authorities)
            assert shown.split() == given.certificate.read_text().split()
        assert server.address["ca"] is None
        words = f"clients must trust the authority of {given.certificate}"
        assert words in server.output()
        assert [path.name for path in (data / "tls").glob("server.*")] == []
    finally:
        server.kill()
