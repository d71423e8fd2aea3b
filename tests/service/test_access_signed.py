"""Tokens that service accounts sign themselves, made by our hand and by Google's own library."""

import base64
import json

import pytest

from service.keeping import CLOUD, Account
from trainshed.model.access import AccessRole
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth import signing_keys, tokens
from trainshed.service.auth.access import Access
from trainshed.service.auth.signed_tokens import (
    MALFORMED,
    NOT_FOR_US,
    NOT_ITSELF,
    TOO_LONG,
    TOO_OLD,
    UNKNOWN_KEY,
    WRONG_ALGORITHM,
)

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def account():
    return Account()


@pytest.fixture(scope="module")
def stranger():
    return Account(kid="kid-2")


@pytest.fixture
def access(store, account):
    signing_keys.add(store, account.registration(project="demo", role="submitter"))
    return Access(store, anonymous=False, clock=lambda: NOW)


def caller(access, text):
    return access.caller(f"Bearer {text}", loopback=False)


def refused(access, text):
    with pytest.raises(Refusal) as error:
        caller(access, text)
    assert error.value.code is Code.UNAUTHENTICATED
    return error.value.message


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_registered_account_is_known_by_what_it_signs(access, account):
    principal = caller(access, account.sign(NOW))
    assert (principal.name, principal.project) == (account.email, "demo")
    assert principal.role is AccessRole.SUBMITTER


def test_a_key_without_its_kid_is_found_all_the_same(store, account, stranger):
    for signer in (stranger, account):
        document = {"email": account.email, "publicKey": signer.public_pem}
        signing_keys.add(store, document)
    access = Access(store, anonymous=False, clock=lambda: NOW)
    assert caller(access, account.sign(NOW)).name == account.email


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"iat": NOW - 3700, "exp": NOW - 100}, TOO_OLD),
        ({"iat": NOW + 100, "exp": NOW + 3000}, TOO_OLD),
        ({"exp": NOW + 3601}, TOO_LONG),
        ({"exp": float("nan")}, TOO_OLD),
        ({"exp": float("inf")}, TOO_LONG),
        ({"exp": True}, MALFORMED),
        ({"exp": 10**400}, MALFORMED),
        ({"nbf": NOW + 100}, TOO_OLD),
        ({"nbf": float("nan")}, TOO_OLD),
        ({"nbf": "soon"}, MALFORMED),
        ({"nbf": None}, MALFORMED),
        ({"without": ("exp",)}, MALFORMED),
        ({"without": ("iat",)}, MALFORMED),
        ({"sub": "boss@demo.iam.gserviceaccount.com"}, NOT_ITSELF),
        ({"scope": "https://www.googleapis.com/auth/gmail.send"}, NOT_FOR_US),
        ({"without": ("scope",)}, NOT_FOR_US),
        ({"without": ("scope",), "aud": "https://pubsub.googleapis.com/"}, NOT_FOR_US),
        ({"without": ("scope",), "aud": "https://evil.example/ml.googleapis.com/"}, NOT_FOR_US),
        ({"target_audience": "https://x.example"}, NOT_FOR_US),
        ({"iss": "boss@demo.iam.gserviceaccount.com"}, UNKNOWN_KEY),
        ({"iss": 7}, UNKNOWN_KEY),
    ],
)
def test_a_claim_that_does_not_hold_is_named(access, account, claims, message):
    assert refused(access, account.sign(NOW, **claims)) == message


@pytest.mark.parametrize(
    "claims",
    [
        {"iat": NOW + 20, "exp": NOW + 3600},
        {"nbf": NOW + 20},
        {"nbf": NOW - 3000},
        {"iat": NOW - 3600, "exp": NOW - 20},
        {"without": ("sub",)},
        {"without": ("scope",), "aud": "https://us-central1-aiplatform.googleapis.com/"},
        {"without": ("scope",), "aud": "https://ml.googleapis.com/"},
        {"scope": f"email {CLOUD}"},
    ],
)
def test_what_googles_clients_send_is_accepted(access, account, claims):
    assert caller(access, account.sign(NOW, **claims)).role is AccessRole.SUBMITTER


def test_a_scope_to_read_only_reads_only(access, account):
    text = account.sign(NOW, scope=f"{CLOUD}.read-only")
    assert caller(access, text).role is AccessRole.VIEWER


def test_a_foreign_key_and_an_unknown_account_are_refused_in_the_same_words(access, stranger):
    assert refused(access, stranger.sign(NOW)) == UNKNOWN_KEY
    other = stranger.sign(NOW, iss="who@else.example", sub="who@else.example")
    assert refused(access, other) == UNKNOWN_KEY


def test_only_rs256_is_a_signature(access, account):
    body = {"iss": account.email, "iat": NOW, "exp": NOW + 60, "scope": CLOUD}
    for algorithm in ("none", "None", "HS256", "RS512", "", None, ["RS256"]):
        unsigned = f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(body)}.{part('x')}"
        assert refused(access, unsigned) in (WRONG_ALGORITHM, MALFORMED)
    import hashlib  # noqa: PLC0415  # the attack in one place
    import hmac  # noqa: PLC0415

    head = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(body)}"
    mac = hmac.digest(account.public_pem.encode(), head.encode(), hashlib.sha256)
    signature = base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
    assert refused(access, f"{head}.{signature}") == WRONG_ALGORITHM


def test_a_changed_claim_breaks_the_signature(access, account):
    head, _, signature = account.sign(NOW).split(".")
    body = {"iss": account.email, "iat": NOW, "exp": NOW + 60, "scope": CLOUD, "more": 1}
    assert refused(access, f"{head}.{part(body)}.{signature}") == UNKNOWN_KEY


@pytest.mark.parametrize(
    "text", ["..", "a.b.c", f"{part({'alg': 'RS256'})}.{'W1' * 6000}.x", "x" * 20_000 + "..",
             f"{base64.urlsafe_b64encode(b'[' * 9000).decode()}.x.y"],
)  # fmt: skip
def test_what_is_no_signed_token_is_refused(access, text):
    refused(access, text)


def test_a_removed_key_is_worthless_soon(store, account):
    now = [NOW]
    signing_keys.add(store, account.registration())
    access = Access(store, anonymous=False, clock=lambda: now[0])
    text = account.sign(NOW)
    caller(access, text)
    signing_keys.remove(store, account.kid)
    now[0] += 5
    assert refused(access, text) == UNKNOWN_KEY


def test_a_grant_is_answered_with_a_token_that_works(access, account):
    assertion = account.sign(NOW, without=("sub",), aud="https://oauth2.googleapis.com/token")
    answer = access.exchange(assertion)
    assert answer["token_type"] == "Bearer"
    assert answer["expires_in"] == 3600
    assert caller(access, answer["access_token"]).name == account.email


def test_a_token_is_refreshed_with_itself_and_never_beyond_its_end(store):
    access = Access(store, anonymous=False, clock=lambda: NOW)
    token = tokens.create(store, {"name": "laptop", "role": "submitter"})
    answer = access.exchange(token.token)
    assert answer["access_token"] == token.token
    assert answer["expires_in"] == 3600


def test_a_grant_of_a_stranger_is_refused(access, stranger):
    for assertion in (stranger.sign(NOW), "", "tsd_x"):
        with pytest.raises(Refusal) as error:
            access.exchange(assertion)
        assert error.value.code is Code.UNAUTHENTICATED


def test_googles_own_library_signs_what_is_accepted_here(store, account):
    service_account = pytest.importorskip(
        "google.oauth2.service_account", reason="google-auth is not installed"
    )
    import time  # noqa: PLC0415  # the library signs by the real clock

    signing_keys.add(store, account.registration())
    access = Access(store, anonymous=False, clock=time.time)
    service_credentials = service_account.Credentials.from_service_account_info(account.key_file())
    for credentials in (
        service_credentials.with_scopes([CLOUD]).with_always_use_jwt_access(True),
        service_credentials.with_always_use_jwt_access(True),
    ):
        credentials._create_self_signed_jwt("https://aiplatform.googleapis.com/")
        credentials.refresh(None)
        assert caller(access, credentials.token).name == account.email
    grant = service_credentials.with_scopes([CLOUD])._make_authorization_grant_assertion()
    text = grant.decode() if isinstance(grant, bytes) else grant
    assert caller(access, access.exchange(text)["access_token"]).name == account.email
