"""The authorities that programs of jobs trust: all that they trusted before, and ours."""

import os
import ssl
import stat
from pathlib import Path

import pytest

from trainshed.service.auth.certificates import ensure_tls
from trainshed.service.gateway.bundle import ensure_bundle, is_current
from trainshed.service.gateway.places import LEAF, NAMES


@pytest.fixture
def authority(tmp_path):
    return ensure_tls(tmp_path, NAMES, leaf=LEAF).ca


def subjects(bundle):
    context = ssl.create_default_context(cafile=bundle)
    return [
        dict(pair for part in certificate["subject"] for pair in part)
        for certificate in context.get_ca_certs()
    ]


def test_it_holds_ours_and_the_machine_s_and_everybody_may_read_it(tmp_path, authority):
    bundle = ensure_bundle(tmp_path, authority)
    names = [subject.get("commonName") for subject in subjects(bundle)]
    assert names.count("Trainshed local authority") == 1
    assert len(names) > 50
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o644
    assert stat.S_IMODE(bundle.parent.stat().st_mode) == 0o755
    assert f"ca_certificates_file = {bundle}" in (bundle.parent / "boto.cfg").read_text()
    assert (bundle.parent / ".curlrc").read_text() == f'cacert = "{bundle}"\n'
    assert [subject["commonName"] for subject in subjects(bundle.parent / "ca.pem")] == [
        "Trainshed local authority"
    ]


def test_what_our_own_variables_name_is_trusted_by_jobs_too(tmp_path, authority, monkeypatch):
    ensure_bundle(tmp_path, authority)
    other = ensure_tls(tmp_path / "of-the-company", NAMES, leaf=LEAF).ca
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other))
    assert not is_current(tmp_path / "gateway/shown/ca-bundle.pem")
    bundle = ensure_bundle(tmp_path, authority)
    assert is_current(bundle)
    assert other.read_text().strip() in bundle.read_text()


def test_it_is_made_again_when_what_it_was_made_of_has_changed(tmp_path, authority, monkeypatch):
    mine = tmp_path / "mine.pem"
    mine.write_bytes(authority.read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(mine))
    bundle = ensure_bundle(tmp_path, authority)
    assert is_current(bundle)
    later = bundle.stat().st_mtime + 10

    os.utime(mine, (later, later))
    assert not is_current(bundle)
    assert not is_current(Path("nowhere"))
