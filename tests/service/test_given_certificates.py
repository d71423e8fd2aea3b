"""A certificate that another program writes: it is shown, and so is the next one."""

import ssl

import pytest

from trainshed.cli.admin.server import _load_given
from trainshed.config import Settings
from trainshed.model.faults import UsageFault
from trainshed.service.auth.certificates import ensure_tls
from trainshed.service.auth.given_certificates import GivenTls


@pytest.fixture
def issue(tmp_path):
    """Write the files of another pair to the same paths, as cert-manager does."""
    target = tmp_path / "given"
    target.mkdir()

    def write(number):
        files = ensure_tls(tmp_path / f"authority-{number}", ["trainer.example"])
        for name, source in (("tls.crt", files.certificate), ("tls.key", files.key)):
            (target / name).write_bytes(source.read_bytes())
        return target / "tls.crt", target / "tls.key"

    return write


def test_the_next_certificate_is_shown_once_both_files_are_there(issue):
    certificate, key = issue(1)
    tls = GivenTls(certificate, key)
    first, context = tls.pair, tls.context
    assert (first, tls.bundle) == ((key.read_bytes(), certificate.read_bytes()), None)
    assert not tls.renew()
    old_key = key.read_bytes()
    issue(2)
    new_key = key.read_bytes()
    key.write_bytes(old_key)
    with pytest.raises(ssl.SSLError):
        tls.renew()
    assert (tls.pair, tls.context) == (first, context)
    key.write_bytes(new_key)
    assert tls.renew()
    assert tls.pair == (new_key, certificate.read_bytes())
    assert tls.context is not context


def test_files_that_change_while_they_are_read_are_read_again(issue, monkeypatch):
    tls = GivenTls(*issue(1))
    first, context = tls.pair, tls.context
    load = ssl.SSLContext.load_cert_chain

    def load_before_a_change(*args, **more):
        load(*args, **more)
        issue(3)

    issue(2)
    with monkeypatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_cert_chain", load_before_a_change)
        with pytest.raises(OSError, match="were changed while they were read"):
            tls.renew()
    assert (tls.pair, tls.context) == (first, context)
    assert tls.renew()
    assert not tls.renew()


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_a_file_that_is_missing_or_another_stops_the_start_with_both_paths(issue, tmp_path, name):
    certificate, key = issue(1)
    settings = Settings(data_dir=tmp_path, tls_certificate=certificate, tls_key=key)
    assert _load_given(settings).pair[1] == certificate.read_bytes()
    for content in (b"torn", None):
        path = certificate.parent / name
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(UsageFault) as refused:
            _load_given(settings)
        assert all(str(path) in str(refused.value) for path in (certificate, key))


def test_without_files_the_server_makes_its_own(tmp_path):
    assert _load_given(Settings(data_dir=tmp_path)) is None
