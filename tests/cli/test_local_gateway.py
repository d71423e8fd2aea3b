"""A local run's programs have gs:// by what Google's clients look for, or are left alone."""

import json
import socket

import pytest

from trainshed.model.gateway import OFF

#: Writes an object as Google's clients do, where it finds what they look for.
WRITES = """\
import json, os, sys, urllib.request

def ask(url, method="GET", data=None, **headers):
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()

where = os.environ.get("GCE_METADATA_HOST")
print("found", where is not None, os.environ.get("https_proxy") == f"http://{where}")
if where:
    token = f"http://{where}/computeMetadata/v1/instance/service-accounts/default/token"
    own = json.loads(ask(token, **{"Metadata-Flavor": "Google"}))["access_token"]
    own = {"Authorization": f"Bearer {own}"}
    ask("https://storage.googleapis.com/made-by-it/a/b", "PUT", b"by its name", **own)
    print("read", ask("https://storage.googleapis.com/made-by-it/a/b", **own))
"""
TRAIN = ("ai-platform", "local", "train", "--module-name", "trainer.task")
CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    """Whoever runs the tests may have credentials."""
    for name in (CREDENTIALS, "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))


def test_a_program_writes_to_a_bucket_that_is_a_folder_here(trainshed, trainer, home):
    trainer(WRITES)
    run = trainshed(*TRAIN)
    assert "found True True" in run.out
    assert "read by its name" in run.out
    assert (home / "data/buckets/made-by-it/a/b").read_text() == "by its name"


def test_whoever_has_credentials_of_google_s_keeps_google_s_buckets(
    trainshed, trainer, monkeypatch
):
    trainer("import os; print('found', 'GCE_METADATA_HOST' in os.environ)")
    monkeypatch.setenv(CREDENTIALS, "/nowhere/key.json")
    assert "found False" in trainshed(*TRAIN).out
    assert "found True" in trainshed(*TRAIN, "--gateway", "on").out


@pytest.mark.parametrize("words", [("--gateway", OFF), ("--labels", f"trainshed-gateway={OFF}")])
def test_it_can_be_turned_off(trainshed, trainer, words, written):
    trainer("import os; print('found', 'GCE_METADATA_HOST' in os.environ)")
    config = written("job.yaml", json.dumps({"trainingInput": {"scaleTier": "BASIC"}}))
    flags = ("--config", config) if "--labels" in words else ()
    assert "found False" in trainshed(*TRAIN, *flags, *words).out


def test_it_ends_with_the_run(trainshed, trainer):
    trainer("import os; print('at', os.environ['GCE_METADATA_HOST'])")
    address = trainshed(*TRAIN).out.partition(" at ")[2].split()[0]
    host, _, port = address.partition(":")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), timeout=60)
