"""Addresses signed by a key that is registered here open what its account may."""

import hashlib
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from service.keeping import Account
from trainshed.model.access import AccessRole
from trainshed.service.auth.access import Access
from trainshed.service.auth.signed_addresses import AddressRefused, SignedAddress
from trainshed.store.records.access import SigningKey

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
HOST = "storage.googleapis.com"


@pytest.fixture(scope="module")
def account():
    return Account()


@pytest.fixture(scope="module")
def access(account):
    key = SigningKey(
        key_id="k",
        email=account.email,
        public_key=account.public_pem,
        project="one",
        role=AccessRole.VIEWER,
        create_time=NOW,
    )

    class Store:
        def keys(self, email):
            return [key] if email == account.email else []

    return Access(Store(), anonymous=False, clock=NOW.timestamp)


def signed(account, *, path="/mine/a%20b~c", life_s=3600, at=NOW, verb="GET"):
    """As google-cloud-storage signs, by hand."""
    scope = f"{at:%Y%m%d}/auto/storage/goog4_request"
    query = {
        "X-Goog-Algorithm": "GOOG4-RSA-SHA256",
        "X-Goog-Credential": f"{account.email}/{scope}",
        "X-Goog-Date": f"{at:%Y%m%dT%H%M%SZ}",
        "X-Goog-Expires": str(life_s),
        "X-Goog-SignedHeaders": "host",
    }
    pairs = "&".join(f"{name}={quote(text, safe='-_.~')}" for name, text in sorted(query.items()))
    request = f"{verb}\n{path}\n{pairs}\nhost:{HOST}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(request.encode()).hexdigest()
    words = f"GOOG4-RSA-SHA256\n{at:%Y%m%dT%H%M%SZ}\n{scope}\n{digest}".encode()
    signature = account.key.sign(words, PKCS1v15(), SHA256()).hex()
    query = {**query, "X-Goog-Signature": signature}
    return SignedAddress(verb=verb, path=path, query=query, headers={"host": HOST})


def refused(access, address):
    with pytest.raises(AddressRefused) as error:
        access.of_address(address)
    return error.value.word


def test_it_is_known_who_has_signed(access, account):
    principal = access.of_address(signed(account))
    assert (principal.name, principal.project, principal.role) == (
        account.email,
        "one",
        AccessRole.VIEWER,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"verb": "PUT"},
        {"path": "/mine/other"},
        {"headers": {"host": "elsewhere"}},
        {"query": {"X-Goog-Expires": "604800"}},
        {"query": {"X-Goog-Signature": "00"}},
        {"query": {"X-Goog-Signature": "no hex"}},
        {"query": {"X-Goog-Credential": "somebody@else/20261123/auto/storage/goog4_request"}},
        {"query": {"prefix": "x"}},
    ],
)
def test_what_was_signed_is_not_changed(access, account, change):
    address = signed(account)
    fields = {name: getattr(address, name) for name in address.__slots__}
    query = {**address.query, **change.get("query", {})}
    changed = SignedAddress(**{**fields, **change, "query": query})
    assert refused(access, changed) == "SignatureDoesNotMatch"


def test_it_ends(access, account):
    long_ago, soon = datetime(2026, 11, 23, 10, 59, tzinfo=UTC), datetime(2026, 11, 24, tzinfo=UTC)
    assert refused(access, signed(account, at=long_ago)) == "ExpiredToken"
    assert refused(access, signed(account, at=soon)) == "ExpiredToken"
    assert refused(access, signed(account, life_s=604_801)) == "ExpiredToken"


def test_an_object_is_read_by_one(replica, world, account, access):
    world.put("a b~c", b"signed")
    world.of_address = access.of_address
    address = signed(account)
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in address.query.items())
    answer = replica.tls().ask("GET", f"{address.path}?{query}", token="")
    assert (answer.status, answer.body) == (200, b"signed")
    answer = replica.tls().ask("GET", f"/mine/other?{query}", token="")
    assert b"<Code>SignatureDoesNotMatch</Code>" in answer.body
