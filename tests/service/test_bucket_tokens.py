"""Tokens that end, and tokens for buckets, which end with the one that made them."""

from datetime import UTC, datetime, timedelta

import pytest

from trainshed.model.access import ALL_PROJECTS, AccessRole
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth import bucket_tokens, key_files, signing_keys, tokens
from trainshed.service.auth.access import REMEMBERED_S, Access
from trainshed.wire.native_v1 import document


@pytest.fixture
def clock(clock):
    """Tokens are made by the machine's clock."""
    clock.now = datetime.now(UTC).timestamp()
    return clock


def caller(access, token):
    return access.caller(f"Bearer {token.token}", loopback=True)


def refused(access, token):
    with pytest.raises(Refusal) as error:
        caller(access, token)
    return error.value


@pytest.fixture
def holder(store, access):
    token = tokens.create(store, {"name": "dora", "project": "demo", "role": "admin"})
    return token, caller(access, token)


def test_a_token_opens_nothing_from_its_end_on(store, access, clock):
    token = tokens.create(store, {"expires": "30d"})
    assert caller(access, token).role is AccessRole.SUBMITTER
    clock.now += 30 * 86_400 + 1
    assert refused(access, token).code is Code.UNAUTHENTICATED
    assert "expired" in refused(access, token).message
    [listed] = tokens.listing(store).tokens
    assert listed.expire_time == token.expire_time


@pytest.mark.parametrize("life", ["0s", "soon", "-1h", 7, "99999d"])
def test_a_life_that_cannot_be_is_named(store, life):
    with pytest.raises(Refusal, match="expires"):
        tokens.create(store, {"expires": life})
    assert list(store.tokens()) == []


def test_the_last_use_is_written_down_when_it_is_asked_for_and_not_before(store, access, clock):
    token = tokens.create(store, {})
    caller(access, token)
    assert store.tokens()[0].last_use_time is None
    access.note_use()
    used = tokens.listing(store).tokens[0].last_use_time
    assert abs(datetime.fromisoformat(used).timestamp() - clock.now) < 0.001


def test_a_revoked_token_is_worthless_at_once_where_it_was_revoked(store, access, clock):
    other = Access(store, anonymous=False, clock=clock)
    token = tokens.create(store, {})
    caller(access, token)
    caller(other, token)
    tokens.revoke(store, token.id)
    access.forget()
    assert refused(access, token).code is Code.UNAUTHENTICATED
    clock.now += REMEMBERED_S
    assert refused(other, token).code is Code.UNAUTHENTICATED


def test_a_token_for_a_bucket_is_its_makers_for_one_bucket_and_for_some_hours(
    store, access, clock, holder
):
    token = bucket_tokens.create(store, holder[1], "demo", {"bucket": "data", "expires": "12h"})
    principal = caller(access, token)
    assert (principal.name, principal.project, principal.bucket) == ("dora", "demo", "data")
    assert principal.role is AccessRole.SUBMITTER
    assert principal.may_use("data")
    assert not principal.may_use("other")
    assert [row.name for row in tokens.listing(store).tokens] == ["dora"]
    clock.now += 12 * 3600 + 1
    assert "buckets token" in refused(access, token).message


@pytest.mark.parametrize("project", ["demo", ALL_PROJECTS])
def test_a_token_for_every_bucket_is_for_those_that_its_maker_may_use(store, access, project):
    maker = caller(access, tokens.create(store, {"project": project, "role": "admin"}))
    token = bucket_tokens.create(store, maker, "demo", {"bucket": "*"})
    principal = caller(access, token)
    assert (principal.project, principal.bucket) == (project, "*")
    assert principal.role is AccessRole.SUBMITTER
    assert principal.may_use("data")
    assert principal.may_use("other")


def test_it_may_read_only(store, access, holder):
    token = bucket_tokens.create(store, holder[1], "demo", {"bucket": "data", "readOnly": True})
    assert caller(access, token).role is AccessRole.VIEWER
    viewer = caller(access, tokens.create(store, {"role": "viewer"}))
    token = bucket_tokens.create(store, viewer, "demo", {"bucket": "data"})
    assert caller(access, token).role is AccessRole.VIEWER


def test_what_is_renewed_lives_on_under_the_same_text(store, access, clock, holder):
    token = bucket_tokens.create(store, holder[1], "demo", {"bucket": "data", "expires": "1s"})
    again = bucket_tokens.renew(store, holder[1], token.id, {"expires": "2h"})
    assert again.expire_time > token.expire_time
    clock.now += 3600
    assert caller(access, token).bucket == "data"
    stranger = caller(access, tokens.create(store, {}))
    with pytest.raises(Refusal) as error:
        bucket_tokens.renew(store, stranger, token.id, {})
    assert error.value.code is Code.NOT_FOUND


def test_it_ends_with_the_token_that_made_it(store, access, holder):
    token = bucket_tokens.create(store, holder[1], "demo", {"bucket": "data"})
    caller(access, token)
    tokens.revoke(store, holder[0].id)
    access.forget()
    assert refused(access, token).code is Code.UNAUTHENTICATED
    with pytest.raises(Refusal):
        bucket_tokens.renew(store, holder[1], token.id, {})


def test_it_outlives_neither_its_makers_token_nor_its_makers_key(store, access):
    short = tokens.create(store, {"expires": "10m"})
    token = bucket_tokens.create(
        store, caller(access, short), "demo", {"bucket": "data", "expires": "12h"}
    )
    assert token.expire_time[:23] == short.expire_time[:23]
    key = signing_keys.new_key_file("http://127.0.0.1:8080", "ci", "demo")
    signing_keys.add(store, key_files.from_key_file(key))
    account = caller(access, tokens.create(store, {}))
    of_key = account.__class__(
        name="ci", project="demo", role=account.role, credential=key["private_key_id"]
    )
    token = bucket_tokens.create(store, of_key, "demo", {"bucket": "data"})
    caller(access, token)
    signing_keys.remove(store, key["private_key_id"])
    access.forget()
    assert refused(access, token).code is Code.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("wish", "word"),
    [
        ({}, "bucket"),
        ({"bucket": "A b"}, "every bucket that the caller may use, got 'A b'"),
        ({"bucket": "data", "expires": "13h"}, "43200s"),
        ({"bucket": "data", "expires": "never"}, "expires"),
        ({"bucket": "data", "role": "admin"}, "unknown field"),
    ],
)
def test_a_wish_that_cannot_be_met_is_named(store, holder, wish, word):
    with pytest.raises(Refusal, match=word):
        bucket_tokens.create(store, holder[1], "demo", wish)


def test_nobody_has_more_of_them_than_are_of_use(store, holder, monkeypatch):
    monkeypatch.setattr(bucket_tokens, "LIVE_MAX", 2)
    for _ in range(2):
        bucket_tokens.create(store, holder[1], "demo", {"bucket": "data"})
    with pytest.raises(Refusal) as error:
        bucket_tokens.create(store, holder[1], "demo", {"bucket": "data"})
    assert error.value.code is Code.RESOURCE_EXHAUSTED


def test_what_ended_long_ago_is_forgotten(store, holder):
    token = bucket_tokens.create(store, holder[1], "demo", {"bucket": "data"})
    assert bucket_tokens.forget_ended(store) == 0
    assert store.forget_ended_tokens(datetime.now(UTC) + timedelta(days=2)) == 1
    with pytest.raises(Refusal):
        bucket_tokens.renew(store, holder[1], token.id, {})
    assert ALL_PROJECTS not in document(token).values()
