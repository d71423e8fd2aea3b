"""Making, listing and revoking tokens and keys; the first administrator's token."""

import os
import stat
import threading

import pytest

from databases import new_database
from service.keeping import Account
from trainshed.files.server_files import ADMIN_FILE
from trainshed.model.access import ALL_PROJECTS, AccessRole
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth import key_files, signing_keys, tokens
from trainshed.service.auth.access import digest_of
from trainshed.service.auth.tokens import first_token
from trainshed.store.opening import open_store
from trainshed.wire.native_v1 import document


@pytest.fixture
def store(tmp_path):
    opened = open_store(new_database(tmp_path / "db"))
    yield opened
    opened.close()


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_start_makes_a_token_that_only_its_owner_reads(store, tmp_path):
    first = first_token(store, tmp_path)
    assert first.path == tmp_path / ADMIN_FILE
    assert first.path.read_text() == f"{first.made}\n"
    assert mode(first.path) == 0o600
    token = store.token(digest_of(first.made))
    assert (token.role, token.project) == (AccessRole.ADMIN, ALL_PROJECTS)


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_the_mode_is_right_whatever_the_umask_is(store, tmp_path, umask):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "first-start.lock").touch()
    before = os.umask(umask)
    try:
        first = first_token(store, tmp_path / "data")
    finally:
        os.umask(before)
    assert mode(first.path) == 0o600


def test_later_starts_use_the_same_token_and_show_it_no_more(store, tmp_path):
    text = first_token(store, tmp_path).made
    again = first_token(store, tmp_path)
    assert again.made is None
    assert again.path.read_text().strip() == text
    assert len(store.tokens()) == 1


def test_a_file_that_was_removed_is_made_again_only_where_nobody_is_administrator(store, tmp_path):
    first_token(store, tmp_path).path.unlink()
    assert first_token(store, tmp_path).made is None
    assert not (tmp_path / ADMIN_FILE).exists()
    tokens.revoke(store, store.tokens()[0].token_id)
    assert first_token(store, tmp_path).made is not None


def test_a_new_database_learns_the_token_of_the_file(store, tmp_path):
    (tmp_path / ADMIN_FILE).write_text("tsd_kept\n")
    assert first_token(store, tmp_path).made is None
    assert store.token(digest_of("tsd_kept")).role is AccessRole.ADMIN


def test_a_start_that_was_killed_before_it_had_written_is_made_good(store, tmp_path):
    (tmp_path / ADMIN_FILE).touch(mode=0o600)
    text = first_token(store, tmp_path).made
    assert store.token(digest_of(text)) is not None
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_revoked_first_token_stays_revoked(store, tmp_path):
    text = first_token(store, tmp_path).made
    tokens.revoke(store, store.tokens()[0].token_id)
    first_token(store, tmp_path)
    assert store.token(digest_of(text)).revoked


def test_of_servers_that_start_together_one_makes_the_token(store, tmp_path):
    texts = []
    together = threading.Barrier(4)

    def start():
        together.wait()
        texts.append(first_token(store, tmp_path).made)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [text for text in texts if text] == [(tmp_path / ADMIN_FILE).read_text().strip()]
    assert len(store.tokens()) == 1


def test_a_token_is_shown_once_and_listed_without_its_text(store):
    token = tokens.create(store, {"name": "n", "project": "demo", "role": "viewer"})
    listed = tokens.listing(store).tokens
    made = document(token)
    text = made.pop("token")
    assert [document(row) for row in listed] == [{**made, "revoked": False}]
    assert text not in str(listed)
    assert digest_of(text) not in str(listed)
    assert made.keys() == {"id", "name", "project", "role", "createTime"}


def test_revoking_is_final_and_needs_a_token_that_exists(store):
    token = tokens.create(store, {})
    assert document(tokens.revoke(store, token.id)) == {}
    assert tokens.listing(store).tokens[0].revoked is True
    with pytest.raises(Refusal) as error:
        tokens.revoke(store, "nothing")
    assert error.value.code is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({"role": "owner"}, "viewer, submitter, admin"),
        ({"role": 3}, "role"),
        ({"project": "123456"}, "project"),
        ({"project": ""}, "project"),
        ({"project": "Demo"}, "project"),
        ({"project": ["demo"]}, "project"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": 7}, "name"),
        ({"digest": "x"}, "unknown field 'digest'"),
        (["demo"], "JSON object"),
        (None, "JSON object"),
    ],
)
def test_a_token_that_cannot_be_is_refused_and_nothing_is_kept(store, document, word):
    with pytest.raises(Refusal) as error:
        tokens.create(store, document)
    assert error.value.code is Code.INVALID_ARGUMENT
    assert word in error.value.message
    assert list(store.tokens()) == []


@pytest.fixture(scope="module")
def account():
    return Account()


def test_a_key_file_is_registered_without_its_private_key(store, account):
    document = key_files.from_key_file(account.key_file())
    assert document == account.registration()
    added = signing_keys.add(store, document)
    assert added.id == account.kid
    assert signing_keys.listing(store).keys == [added]
    assert "PRIVATE" not in str(store.all_keys())


def test_a_key_without_an_id_is_named_by_its_fingerprint(store, account):
    document = account.registration()
    del document["keyId"]
    assert len(signing_keys.add(store, document).id) == 40


def test_a_key_id_is_not_taken_over(store, account):
    signing_keys.add(store, account.registration())
    with pytest.raises(Refusal) as error:
        signing_keys.add(store, account.registration(email="boss@demo.example", role="admin"))
    assert error.value.code is Code.ALREADY_EXISTS
    signing_keys.remove(store, account.kid)
    with pytest.raises(Refusal):
        signing_keys.remove(store, account.kid)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"publicKey": "x"}, "publicKey"),
        ({"publicKey": None}, "publicKey"),
        ({"email": "nobody"}, "email"),
        ({"email": None}, "email"),
        ({"keyId": "a b"}, "keyId"),
        ({"role": "root"}, "role"),
        ({"extra": 1}, "unknown field"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused(store, account, change, word):
    with pytest.raises(Refusal) as error:
        signing_keys.add(store, account.registration(**change))
    assert word in error.value.message


def test_a_weak_key_and_a_private_key_are_refused(store, account):
    for pem, word in (
        (Account(bits=1024).public_pem, "at least 2048 bits, got 1024"),
        (account.private_pem, "publicKey"),
    ):
        with pytest.raises(Refusal) as error:
            signing_keys.add(store, account.registration(publicKey=pem))
        assert word in error.value.message
        assert "PRIVATE" not in error.value.message


@pytest.mark.parametrize(
    "content", [None, [], {}, {"type": "authorized_user"}, {"type": "service_account"},
                {"type": "service_account", "private_key": "x", "client_email": "a@b"}],
)  # fmt: skip
def test_a_file_that_is_no_key_file_is_named_as_such(content):
    with pytest.raises(ValueError, match=r"it (is|has)|its private_key"):
        key_files.from_key_file(content)
