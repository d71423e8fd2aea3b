"""Who is let in with which header, and how soon a revoked token is worthless."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.conftest import Clock
from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth import tokens
from trainshed.service.auth.access import ANONYMOUS, REMEMBERED_S, Access, digest_of


def refusal(access, header, *, loopback=True):
    with pytest.raises(Refusal) as error:
        access.caller(header, loopback=loopback)
    return error.value.code, error.value.message


def test_a_token_says_who_calls_from_where_and_as_what(store, access):
    token = tokens.create(store, {"name": "laptop", "project": "demo", "role": "viewer"})
    for header in (f"Bearer {token.token}", f"bearer  {token.token} "):
        caller = access.caller(header, loopback=False)
        assert caller == Caller(name="laptop", project="demo", role=AccessRole.VIEWER)


def test_the_store_never_learns_a_tokens_text(store, tmp_path):
    text = tokens.create(store, {}).token
    assert text.startswith("tsd_")
    assert store.token(digest_of(text)).name == "submitter"
    store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert digest_of(text).encode() in content
    assert text.encode() not in content


@pytest.mark.parametrize("header", [None, "", "  "])
def test_without_credentials_the_answer_is_403_and_says_what_to_do(access, header):
    code, message = refusal(access, header)
    assert code is Code.PERMISSION_DENIED
    assert "trainshed env" in message


@pytest.mark.parametrize(
    "header", ["Bearer nonsense", "Bearer ", "Bearer tsd_", "Basic dTpw", "tsd_x", "Bearer a.b.c"]
)
@pytest.mark.parametrize("anonymous", [True, False])
def test_bad_credentials_are_401_even_where_none_are_needed(store, clock, header, anonymous):
    access = Access(store, anonymous=anonymous, clock=clock)
    assert refusal(access, header)[0] is Code.UNAUTHENTICATED


def test_anonymous_callers_are_let_in_from_this_machine_alone(store, clock):
    access = Access(store, anonymous=True, clock=clock)
    assert access.caller(None, loopback=True) == ANONYMOUS
    assert refusal(access, None, loopback=False)[0] is Code.PERMISSION_DENIED
    assert ANONYMOUS.may(AccessRole.SUBMITTER, "any")
    assert not ANONYMOUS.may(AccessRole.ADMIN, None)


def test_a_revoked_token_is_refused_in_the_words_for_an_unknown_one(store, access, clock):
    token = tokens.create(store, {})
    header = f"Bearer {token.token}"
    access.caller(header, loopback=True)
    tokens.revoke(store, token.id)
    access.caller(header, loopback=True)  # another server may remember it for a moment
    clock.now += REMEMBERED_S
    assert refusal(access, header) == refusal(access, "Bearer tsd_never-was")


def test_a_clock_that_is_set_back_keeps_no_revoked_token_alive(store, access, clock):
    token = tokens.create(store, {})
    access.caller(f"Bearer {token.token}", loopback=True)
    tokens.revoke(store, token.id)
    clock.now -= 3600
    assert refusal(access, f"Bearer {token.token}")[0] is Code.UNAUTHENTICATED


def test_a_token_that_was_refused_is_accepted_as_soon_as_it_is_known(store, access):
    token = tokens._token("tsd_later", "later", ALL_PROJECTS, AccessRole.VIEWER)
    refusal(access, "Bearer tsd_later")
    store.add_token(token)
    assert access.caller("Bearer tsd_later", loopback=True).name == "later"


def test_a_known_token_is_looked_up_once_in_its_time(store, clock):
    digests = []

    class Counting:
        def token(self, digest):
            digests.append(digest)
            return store.token(digest)

        def keys(self, _):
            return ()

    access = Access(Counting(), anonymous=False, clock=clock)
    header = f"Bearer {tokens.create(store, {}).token}"
    for _ in range(5):
        access.caller(header, loopback=True)
    assert len(digests) == 1
    clock.now += REMEMBERED_S
    access.caller(header, loopback=True)
    assert len(digests) == 2


ROLES = list(AccessRole)


@pytest.mark.parametrize(("has", "wants"), [*itertools.product(ROLES, ROLES)])
def test_a_role_may_what_the_lesser_roles_may_and_in_its_project_only(store, access, has, wants):
    document = {"project": "demo", "role": has.name.lower()}
    one = access.caller(f"Bearer {tokens.create(store, document).token}", loopback=True)
    document["project"] = ALL_PROJECTS
    every = access.caller(f"Bearer {tokens.create(store, document).token}", loopback=True)
    allowed = has >= wants
    assert one.may(wants, "demo") is allowed
    assert not one.may(wants, "other")
    assert not one.may(wants, None)
    assert every.may(wants, "other") is allowed
    assert every.may(wants, None) is allowed


class Empty:
    def token(self, _):
        return None

    def keys(self, _):
        return ()


@given(st.text())
def test_no_header_of_any_kind_lets_a_stranger_in_or_breaks_the_server(header):
    access = Access(Empty(), anonymous=False, clock=Clock())
    for text in (header, f"Bearer {header}", f"Bearer {header}.{header}.{header}"):
        with pytest.raises(Refusal):
            access.caller(text, loopback=True)
