"""``trainshed tokens`` and ``trainshed keys``, with a server and without one."""

import json
import stat
import time

import pytest

from cli.standin import StandIn
from databases import new_database
from service.keeping import Account, write_key_file
from trainshed.model.refusals import Refusal
from trainshed.service.auth import signing_keys, tokens
from trainshed.service.auth.access import Access
from trainshed.store.opening import open_store
from trainshed.wire.native_v1 import document


@pytest.fixture(autouse=True)
def _nothing_of_mine(monkeypatch):
    for name in ("TOKEN", "DATABASE", "URL"):
        monkeypatch.delenv(f"TRAINSHED_{name}", raising=False)
    monkeypatch.delenv("CLOUDSDK_CORE_PROJECT", raising=False)
    monkeypatch.setenv("TRAINSHED_PROJECT", "mine")


@pytest.fixture(autouse=True)
def data(home):
    """The data directory of a server that has run, and runs no more."""
    new_database(home / "data")
    return home / "data"


def caller(data, text):
    store = open_store(f"sqlite:///{data}/trainshed.db")
    try:
        access = Access(store, anonymous=False, clock=lambda: 0.0)
        return access.caller(f"Bearer {text}", loopback=True)
    finally:
        store.close()


def test_without_a_server_a_token_is_made_in_the_database(trainshed, data):
    run = trainshed("tokens", "create", "--project", "demo", "--role", "viewer", "--name", "me")
    assert run.code == 0
    identity = caller(data, run.out.strip())
    assert (identity.name, identity.project, identity.role.name) == ("me", "demo", "VIEWER")
    assert "no server runs; using the database" in run.err
    assert run.out.strip() not in run.err


def test_tokens_are_listed_without_their_texts_and_revoked_by_id(trainshed, data):
    token = trainshed("tokens", "create", "--format", "json").json
    run = trainshed("tokens", "list", "--format", "json")
    assert [row["id"] for row in run.json] == [token["id"]]
    assert token["token"] not in run.out
    assert token["id"] in trainshed("tokens", "list").out
    revocation = trainshed("tokens", "revoke", token["id"], "--format", "json")
    assert revocation.json == {"id": token["id"], "revoked": True}
    assert trainshed("tokens", "list", "--format", "json").json[0]["revoked"] is True
    with pytest.raises(Refusal):
        caller(data, token["token"])


def test_a_token_can_go_to_a_file_that_only_its_owner_reads(trainshed, data, tmp_path):
    run = trainshed("tokens", "create", "--out", "t", "--format", "json")
    assert "tsd_" not in run.out
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o600
    assert caller(data, (tmp_path / "t").read_text().strip()).project == "mine"
    lost = trainshed("tokens", "create", "--out", "no/such/t")
    assert (lost.code, len(trainshed("tokens", "list", "--format", "json").json)) == (2, 1)


def test_another_database_can_be_named(trainshed, home, monkeypatch):
    url = new_database(home / "other")
    trainshed("tokens", "create", "--database", url)
    monkeypatch.setenv("TRAINSHED_DATABASE", url)
    assert len(trainshed("tokens", "list", "--format", "json").json) == 1


def test_a_database_in_use_is_told_and_not_touched(trainshed, data):
    store = open_store(f"sqlite:///{data}/trainshed.db")
    try:
        run = trainshed("tokens", "create")
    finally:
        store.close()
    assert run.code == 2
    assert "in use by another server" in run.err


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["create", "--role", "owner"], "--role"),
        (["create", "--project", "12345"], "project"),
        (["create", "--project", "demo", "--all-projects"], "not allowed with"),
        (
            ["create", "--expires", "3"],
            "expires must have a unit, got '3'; accepted: a duration such",
        ),
        (["create", "--expires", "1h30"], "expires must have a unit"),
        (["create", "--expires", "soon"], "expires must be a duration such as 30d"),
        (["revoke"], "revoke needs the ID"),
        (["list", "x"], "revoke needs the ID"),
        (["revoke", "x"], "there is no token 'x'"),
        (["forget"], "invalid choice"),
        ([], "ACTION"),
        (["create", "--token-file", "none"], "must be a file with a token"),
    ],
)
def test_a_mistake_is_one_clear_line(trainshed, words, word):
    run = trainshed("tokens", *words)
    assert run.code == 2
    assert word in run.err
    assert "Traceback" not in run.err


ROW = {"id": "1", "name": "n", "project": "*", "role": "viewer", "createTime": "2026-01-01T00:00"}


def test_a_running_server_is_asked_with_the_administrators_token(trainshed, data):
    def answer(verb, *_):
        every = {"GET": {"tokens": [{**ROW, "revoked": False}]}, "POST": {**ROW, "token": "tsd_n"}}
        return 200, every.get(verb, {})

    with StandIn(answer) as server:
        server.note(data)
        run = trainshed("tokens", "create", "--role", "viewer", "--project", "demo")
        assert run.out == "tsd_n\n"
        assert "1" in trainshed("tokens", "list").out
        assert trainshed("tokens", "revoke", "a/../b").code == 0
    assert server.requests == [
        ("POST", "/trainshed/v1/tokens", "Bearer tsd_admin",
         {"role": "viewer", "project": "demo"}),
        ("GET", "/trainshed/v1/tokens", "Bearer tsd_admin", None),
        ("DELETE", "/trainshed/v1/tokens/a%2F..%2Fb", "Bearer tsd_admin", None),
    ]  # fmt: skip
    assert trainshed("tokens", "list", "--format", "json").json == []  # the database is unchanged


def test_a_token_is_for_the_project_of_the_shell(trainshed, monkeypatch):
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo-proj")
    token = trainshed("tokens", "create", "--format", "json").json
    assert (token["project"], token["role"]) == ("demo-proj", "submitter")
    every = trainshed("tokens", "create", "--all-projects", "--format", "json").json
    assert every["project"] == "*"


@pytest.mark.parametrize("noun", ["tokens", "keys"])
def test_every_project_is_asked_for_by_name(trainshed, monkeypatch, noun):
    monkeypatch.delenv("TRAINSHED_PROJECT")
    run = trainshed(noun, "create")
    assert run.code == 2
    assert "--project ID" in run.err
    assert "--all-projects" in run.err


@pytest.mark.parametrize("noun", ["tokens", "keys"])
def test_a_client_asks_the_server_that_its_shell_names(trainshed, home, monkeypatch, noun):
    monkeypatch.setenv("TRAINSHED_DATA_DIR", str(home / "client"))
    monkeypatch.setenv("TRAINSHED_TOKEN", "tsd_mine")
    with StandIn(lambda *_: (200, {noun: []})) as server:
        monkeypatch.setenv("TRAINSHED_URL", f"{server.url}/")
        assert trainshed(noun, "list", "--format", "json").json == []
    assert server.requests == [("GET", f"/trainshed/v1/{noun}", "Bearer tsd_mine", None)]
    assert not (home / "client").exists()


@pytest.mark.parametrize("noun", ["tokens", "keys"])
def test_a_client_without_a_server_makes_no_database(trainshed, home, monkeypatch, noun):
    monkeypatch.setenv("TRAINSHED_DATA_DIR", str(home / "client"))
    run = trainshed(noun, "list")
    assert run.code == 2
    assert "TRAINSHED_URL" in run.err
    assert not (home / "client").exists()
    other = trainshed(noun, "list", "--database", f"sqlite:///{home}/client/other.db")
    assert other.code == 2
    assert "other.db does not exist" in other.err
    assert not (home / "client").exists()


def test_the_servers_own_words_are_shown(trainshed, data):
    with StandIn(lambda *_: (403, {"error": {"message": "only for administrators"}})) as server:
        server.note(data)
        with_health = trainshed("tokens", "list", "--url", server.url)
    assert with_health.code == 2
    assert "only for administrators" in with_health.err


@pytest.mark.parametrize(
    "answer", [(200, []), (200, "x"), (404, None), (500, {"error": "x"}), (200, {})]
)
def test_what_is_no_trainshed_server_is_told(trainshed, data, answer):
    with StandIn(lambda *_: answer) as server:
        server.note(data)
        run = trainshed("tokens", "list", "--url", server.url)
    assert run.code == 2
    assert "Traceback" not in run.err
    assert "unexpected" not in run.err


def test_a_server_that_is_gone_is_not_shown_the_token(trainshed, data):
    with StandIn() as server:
        server.note(data, pid=2**22 + 1)  # no process has this id
        assert trainshed("tokens", "list", "--format", "json").json == []
    assert server.requests == []


def test_the_token_of_this_machine_is_not_sent_elsewhere(trainshed, data):
    with StandIn() as server:
        server.note(data)
        run = trainshed("tokens", "list", "--url", "http://trainer.invalid:8080")
    assert run.code == 2
    assert "needs an administrator's token" in run.err


def test_a_server_without_a_known_token_says_what_to_do(trainshed, data, monkeypatch):
    with StandIn(lambda *_: (200, {"tokens": []})) as server:
        server.note(data, None)
        lost = trainshed("tokens", "list")
        assert lost.code == 2
        assert "stop the server" in lost.err
        monkeypatch.setenv("TRAINSHED_TOKEN", "tsd_mine")
        assert trainshed("tokens", "list", "--format", "json").json == []
    assert [request[2] for request in server.requests] == ["Bearer tsd_mine"]


@pytest.fixture(scope="module")
def account():
    return Account()


def test_a_service_account_is_let_in_by_its_key_file(trainshed, data, tmp_path, account):
    write_key_file(tmp_path / "sa.json", account)
    added = trainshed("keys", "add", "--key-file", "sa.json", "--project", "demo")
    assert added.code == 0
    assert account.kid in added.out
    assert "PRIVATE" not in added.out + added.err
    assert caller(data, account.sign(0)).project == "demo"
    assert [row["email"] for row in trainshed("keys", "list", "--format", "json").json] == [
        account.email
    ]
    assert trainshed("keys", "remove", account.kid).code == 0
    with pytest.raises(Refusal):
        caller(data, account.sign(0))


def test_a_service_account_is_let_in_by_its_public_key(trainshed, data, written, account):
    written("ci.pem", account.public_pem)
    words = ("keys", "add", "--email", account.email, "--public-key", "ci.pem", "--role", "admin")
    assert len(trainshed(*words, "--format", "json").json["id"]) == 40
    assert caller(data, account.sign(0)).role.name == "ADMIN"


def test_a_key_goes_to_a_running_server_without_its_private_half(
    trainshed, data, tmp_path, account
):
    write_key_file(tmp_path / "sa.json", account)
    row = {**ROW, "email": account.email}
    with StandIn(lambda *_: (200, row)) as server:
        server.note(data)
        assert trainshed("keys", "add", "--key-file", "sa.json").code == 0
    ((verb, path, _, document),) = server.requests
    assert (verb, path) == ("POST", "/trainshed/v1/keys")
    assert document == {**account.registration(), "project": "mine"}


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["add"], "--key-file FILE, or --email"),
        (["add", "--email", "a@b.example"], "--public-key"),
        (["add", "--key-file", "sa.json", "--email", "a@b"], "--key-file contains"),
        (["add", "--key-file", "none.json"], "cannot read the key file"),
        (["add", "--key-file", "ci.pem"], "cannot read the key file"),
        (["add", "--email", "a@b.example", "--public-key", "sa.pem"], "is a private key"),
        (["add", "--email", "a@b.example", "--public-key", "none"], "cannot read the key"),
        (["add", "--email", "nobody", "--public-key", "ci.pem"], "email"),
        (["remove"], "remove needs the ID"),
        (["remove", "x"], "there is no key 'x'"),
    ],
)
def test_a_mistake_with_keys_is_one_clear_line(trainshed, written, account, words, word):
    written("sa.json", json.dumps(account.key_file()))
    written("sa.pem", account.private_pem)
    written("ci.pem", account.public_pem)
    run = trainshed("keys", *words)
    assert run.code == 2
    assert word in run.err
    assert "Traceback" not in run.err


def test_a_key_that_google_does_not_know_signs_what_is_accepted_here(trainshed, data, tmp_path):
    words = ("--name", "ci", "--project", "demo")
    with StandIn() as server:
        server.note(data, pid=2**22 + 1)  # it has run here, and ended: its database is used
        run = trainshed("keys", "create", *words, "--out", tmp_path / "ci.json")
        url = server.url
    assert run.code == 0, run.err
    assert run.out.strip() == str(tmp_path / "ci.json")
    assert stat.S_IMODE((tmp_path / "ci.json").stat().st_mode) == 0o600
    content = json.loads((tmp_path / "ci.json").read_text())
    assert content["token_uri"] == f"{url}/token"
    assert content["client_email"] == "ci@demo.trainshed.invalid"
    service_account = pytest.importorskip(
        "google.oauth2.service_account", reason="google-auth is not installed"
    )
    credentials = service_account.Credentials.from_service_account_info(content)
    signer = credentials.with_scopes(["https://www.googleapis.com/auth/cloud-platform"])
    assertion = signer._make_authorization_grant_assertion()
    store = open_store(f"sqlite:///{data}/trainshed.db")
    try:
        access = Access(store, anonymous=False, clock=time.time)
        granted = access.exchange(bytes(assertion).decode(), "")["access_token"]
        assert access.caller(f"Bearer {granted}", loopback=True).project == "demo"
        [noted] = store.audit_log(limit=9)
        assert (noted.credential, noted.method) == ("local", "POST /trainshed/v1/keys")
    finally:
        store.close()


def test_a_key_of_googles_is_registered_with_a_warning(trainshed, data, tmp_path, account):
    assert data
    write_key_file(tmp_path / "sa.json", account)
    added = trainshed("keys", "add", "--key-file", "sa.json")
    assert f"a token that {account.email} signs for this server is valid at Google too" in added.err


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["create", "--url", "http://127.0.0.1:1", "--email", "a@b.example"], "create makes"),
        (["list", "--url", "http://trainer.invalid:1"], "needs an administrator's token"),
        (["create", "--name", "A b"], "give the address with --url"),
        (["add", "--name", "ci", "--key-file", "x"], "for create"),
        (["list", "--out", "x"], "for create"),
    ],
)
def test_what_makes_no_key_is_said(trainshed, data, words, word):
    assert data
    run = trainshed("keys", *words)
    assert run.code == 2
    assert word in run.err


def test_both_ways_give_the_same_json(trainshed, data, tmp_path):
    """The native API mounts the functions that the command uses without a server."""
    store = open_store(f"sqlite:///{tmp_path}/served.db")

    def answer(verb, path, body):
        noun = path.split("/")[3]
        module = {"tokens": tokens, "keys": signing_keys}[noun]
        if verb == "POST":
            return 200, document(tokens.create(store, body))
        return 200, document(module.listing(store))

    def outputs():
        token = trainshed("tokens", "create", "--name", "n", "--format", "json").json
        return [token.keys(), trainshed("tokens", "list", "--format", "json").json[0].keys()]

    alone = outputs()
    with StandIn(answer) as server:
        server.note(data)
        served = outputs()
    store.close()
    assert served == alone
