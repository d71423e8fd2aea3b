"""The metadata server, as Google's libraries ask it."""

import json

import pytest

ROOT = "/computeMetadata/v1"
FLAVOR = {"Metadata_Flavor": "Google"}
DEFAULT = f"{ROOT}/instance/service-accounts/default"


@pytest.fixture
def ask(replica):
    return lambda target, **headers: replica.plain().ask("GET", target, **(headers or FLAVOR))


def test_it_shows_that_it_is_one(ask):
    answer = ask("/", Accept="*/*")  # google-auth looks so whether it runs at Google
    assert (answer.status, answer.header("Metadata-Flavor")) == (200, "Google")


def test_whoever_does_not_mean_it_gets_nothing(ask):
    assert ask(f"{DEFAULT}/token", Accept="*/*").status == 403
    assert ask(f"{DEFAULT}/token", X_Forwarded_For="1.2.3.4", **FLAVOR).status == 403


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("project/project-id", "one"),
        ("project/numeric-project-id", "1001"),
        ("instance/zone", "projects/1001/zones/us-central1-a"),
        ("instance/service-accounts/default/email", "job-11@one.trainshed.invalid"),
        ("universe/universe-domain", "googleapis.com"),
        ("instance/attributes/", ""),
    ],
)
def test_it_knows_what_clients_ask_for(ask, path, text):
    answer = ask(f"{ROOT}/{path}")
    assert (answer.status, answer.body.decode()) == (200, text)


def test_a_folder_is_given_whole(ask):
    account = json.loads(ask(f"{DEFAULT}/?recursive=true").body)
    assert account["email"] == "job-11@one.trainshed.invalid"
    assert "https://www.googleapis.com/auth/cloud-platform" in account["scopes"]
    everything = json.loads(ask(f"{ROOT}/?recursive=true&alt=json").body)
    assert everything["project"]["numericProjectId"] == 1001
    assert set(everything["instance"]["serviceAccounts"]) == {"default", account["email"]}
    assert ask(f"{DEFAULT}").header("Location") == f"{DEFAULT}/"


def test_a_token_opens_storage(ask, replica):
    token = json.loads(ask(f"{DEFAULT}/token?scopes=x").body)
    assert (token["token_type"], 3000 < token["expires_in"] < 3600) == ("Bearer", True)
    assert replica.tls().ask("GET", "/mine", token=token["access_token"]).status == 200
    by_email = DEFAULT.replace("default", "job-11@one.trainshed.invalid")
    assert json.loads(ask(f"{by_email}/token").body)["expires_in"] == token["expires_in"]
    info = replica.tls("oauth2.googleapis.com").ask(
        "GET", f"/tokeninfo?access_token={token['access_token']}"
    )
    assert json.loads(info.body)["email"] == "job-11@one.trainshed.invalid"


def test_what_google_alone_can_sign_is_not_there(ask):
    answer = ask(f"{DEFAULT}/identity?audience=https://x")
    assert (answer.status, b"identity tokens" in answer.body) == (404, True)
    assert ask(f"{ROOT}/instance/nothing").status == 404
