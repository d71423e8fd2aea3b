"""The authority and the server's certificate: made, kept, renewed, and trusted by real clients."""

import http.server
import socket
import ssl
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509

from trainshed.service.auth import certificates
from trainshed.service.auth.certificates import CA_LIFE, SERVER_LIFE, ServerTls, ensure_tls

NOW = datetime.now(UTC)
ANY = "0.0.0.0"  # noqa: S104  # nothing is bound to it here


def read(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_keys_are_their_owners_alone_and_the_rest_is_for_everybody(tmp_path):
    files = ensure_tls(tmp_path, ["127.0.0.1"])
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in files.ca.parent.iterdir()}
    modes.pop("first-start.lock")
    assert modes == {
        "ca.key": 0o600,
        "server.key": 0o600,
        "ca.pem": 0o644,
        "server.pem": 0o644,
        "ca-bundle.pem": 0o644,
    }


def test_the_names_are_loopbacks_and_the_configured_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(certificates, "address_of_machine", lambda: "192.0.2.9")
    names = [ANY, "Trainer.LAN:8443", "10.0.0.7", "[fd00::1]:8080", "", "bücher"]
    files = ensure_tls(tmp_path, names)
    extension = read(files.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    dns = set(extension.value.get_values_for_type(x509.DNSName))
    addresses = set(map(str, extension.value.get_values_for_type(x509.IPAddress)))
    assert dns == {"localhost", "trainer.lan", socket.gethostname().lower()}
    assert addresses == {"127.0.0.1", "::1", "10.0.0.7", "fd00::1", "192.0.2.9"}


def test_a_later_start_changes_nothing(tmp_path):
    first = ensure_tls(tmp_path, ["a.lan"])
    content = {p: p.read_bytes() for p in first.ca.parent.iterdir()}
    assert ensure_tls(tmp_path, ["a.lan"]) == first
    assert {p: p.read_bytes() for p in first.ca.parent.iterdir()} == content


def test_a_new_name_renews_the_certificate_under_the_same_authority_and_key(tmp_path):
    files = ensure_tls(tmp_path, ["a.lan"])
    ca, key = files.ca.read_bytes(), files.key.read_bytes()
    ensure_tls(tmp_path, ["b.lan"])
    extension = read(files.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert {"a.lan", "b.lan"} <= set(extension.value.get_values_for_type(x509.DNSName))
    assert (files.ca.read_bytes(), files.key.read_bytes()) == (ca, key)


def test_names_of_earlier_starts_have_a_bound(tmp_path):
    """A pod has another address after each start."""
    counts = []
    for number in range(100):
        files = ensure_tls(tmp_path, ["trainer.lan", f"10.244.0.{number}"])
        names = read(files.certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        texts = [str(name.value) for name in names.value]
        assert {"trainer.lan", f"10.244.0.{number}"} <= set(texts)
        counts.append(len(texts))
    assert 60 <= max(counts) <= 66


def test_certificates_are_renewed_before_they_end(tmp_path):
    files = ensure_tls(tmp_path, [], now=NOW)
    ca, first = files.ca.read_bytes(), read(files.certificate)
    assert first.not_valid_after_utc - NOW < SERVER_LIFE + timedelta(seconds=1)
    ensure_tls(tmp_path, [], now=NOW + SERVER_LIFE - timedelta(days=61))
    assert read(files.certificate) == first
    ensure_tls(tmp_path, [], now=NOW + SERVER_LIFE - timedelta(days=59))
    assert read(files.certificate) != first
    assert files.ca.read_bytes() == ca
    ensure_tls(tmp_path, [], now=NOW + CA_LIFE)
    assert files.ca.read_bytes() != ca
    read(files.certificate).verify_directly_issued_by(read(files.ca))


def test_a_server_that_runs_for_years_renews_its_own(tmp_path):
    tls = ServerTls(tmp_path, [])
    first, context = tls.pair, tls.context
    assert not tls.renew()
    assert tls.context is context
    assert tls.renew(now=NOW + SERVER_LIFE - timedelta(days=59))
    assert tls.pair[1] == tls.files.certificate.read_bytes() != first[1]
    assert tls.context is not context  # handshakes go on with the one that they began with


def test_a_certificate_never_outlives_its_authority(tmp_path):
    ensure_tls(tmp_path, [], now=NOW)
    files = ensure_tls(tmp_path, [], now=NOW + CA_LIFE - timedelta(days=100))
    assert read(files.certificate).not_valid_after_utc <= read(files.ca).not_valid_after_utc


@pytest.mark.parametrize("name", ["ca.key", "ca.pem", "server.key", "server.pem", "ca-bundle.pem"])
@pytest.mark.parametrize("content", [None, b"", b"torn"])
def test_a_file_that_is_lost_or_torn_is_made_good(tmp_path, name, content):
    files = ensure_tls(tmp_path, [])
    path = files.ca.parent / name
    path.unlink() if content is None else path.write_bytes(content)
    ensure_tls(tmp_path, [])
    read(files.certificate).verify_directly_issued_by(read(files.ca))
    assert files.ca.read_bytes() in files.bundle.read_bytes()
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
        files.certificate, files.key
    )


def test_the_bundle_trusts_us_and_the_public_authorities(tmp_path):
    files = ensure_tls(tmp_path, [])
    context = ssl.create_default_context(cafile=str(files.bundle))
    names = [dict(pair[0] for pair in ca["subject"]) for ca in context.get_ca_certs()]
    assert len(names) > 50
    assert [n for n in names if n.get("commonName") == "Trainshed local authority"]


def test_servers_that_start_together_agree(tmp_path):
    with ThreadPoolExecutor(6) as pool:
        files = list(pool.map(lambda n: ensure_tls(tmp_path, [f"s{n}.lan"]), range(6)))
    assert len(set(files)) == 1
    read(files[0].certificate).verify_directly_issued_by(read(files[0].ca))


class Echo(grpc.GenericRpcHandler):
    def service(self, _):
        return grpc.unary_unary_rpc_method_handler(lambda request, _: request)


@pytest.mark.parametrize("target", ["localhost", "127.0.0.1"])
def test_grpc_speaks_tls_with_it(tmp_path, target):
    files = ensure_tls(tmp_path, [])
    pair = (files.key.read_bytes(), files.certificate.read_bytes())
    server = grpc.server(ThreadPoolExecutor(1), handlers=[Echo()])
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    try:
        trusting = grpc.ssl_channel_credentials(files.bundle.read_bytes())
        with grpc.secure_channel(f"{target}:{port}", trusting) as channel:
            assert channel.unary_unary("/a.B/C")(b"hello", timeout=60) == b"hello"
        with (
            grpc.secure_channel(f"{target}:{port}", grpc.ssl_channel_credentials()) as channel,
            pytest.raises(grpc.RpcError) as error,
        ):
            channel.unary_unary("/a.B/C")(b"hello", timeout=60)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        server.stop(None).wait()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def test_requests_speaks_https_with_it(tmp_path, monkeypatch):
    requests = pytest.importorskip("requests", reason="make test installs requests")
    files = ensure_tls(tmp_path, [])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"https://localhost:{server.server_port}/"
        monkeypatch.setenv("NO_PROXY", "localhost")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(files.bundle))
        assert requests.get(url, timeout=60).json() == {}
        monkeypatch.delenv("REQUESTS_CA_BUNDLE")
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(url, timeout=60)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
