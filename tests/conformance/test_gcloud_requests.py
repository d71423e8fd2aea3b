"""What gcloud sends, kept byte for byte where bytes matter, and what the server makes of it.

The recordings let a machine without gcloud check the server against real requests.  Where gcloud
is there, it is asked whether it still sends the same.  UPDATE_GOLDEN=1 records anew.
"""

import base64
import json
import os
import re
from pathlib import Path

import pytest

from conformance.gcloud import needs_gcloud
from conformance.gcloud_commands import COMMANDS, FILES, PACKAGE, SUBMIT
from conformance.recorder import Recorder

pytestmark = pytest.mark.slow

PACKAGED = (*SUBMIT, "j_number", "--module-name=trainer.task", *PACKAGE)
CREATE = ("ai", "custom-jobs", "create", "--display-name=cj1")
RECORDINGS = Path(__file__).parent / "requests"

#: What the server answers to each recording, a status a request; all others are 200.
STATUS = {
    "ml-submit-unknown-field": [400],
    "ai-tuning-describe": [404],
    "ai-describe": [404],
    "ai-cancel": [404],
    "ai-operation": [404],
}


@pytest.fixture(scope="module")
def recorder():
    with Recorder() as recorder:
        yield recorder


@pytest.fixture
def run_recorded(warm, gcloud_at, recorder, tmp_path):
    """Run gcloud against a recorder that has forgotten what was before."""
    recorder.forget()
    return lambda command: warm(command, gcloud_at(recorder.url), tmp_path)


@needs_gcloud
@pytest.mark.parametrize("name", COMMANDS)
def test_gcloud_still_sends_what_was_recorded(name, recorder, run_recorded, tmp_path):
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    run_recorded(COMMANDS[name]).ok()
    path = RECORDINGS / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(json.dumps(recorder.requests, indent=1) + "\n")
    recorded = json.loads(path.read_text())
    assert [timeless(request) for request in recorder.requests] == [timeless(r) for r in recorded]


@needs_gcloud
@pytest.mark.parametrize(
    ("command", "text"),
    [
        (PACKAGED, "trainingInput: {runtimeVersion: 2.1}"),
        (PACKAGED, 'trainingInput: {runtimeVersion: "2.1", pythonVersion: 3.7}'),
        (CREATE, "workerPoolSpecs: [{machineSpec: {machineType: 4}}]"),
    ],
)
def test_gcloud_itself_refuses_a_number_where_a_text_belongs(
    command, text, recorder, run_recorded, tmp_path
):
    """docs/compatibility/gcloud-config.md: it never reaches a server."""
    (tmp_path / "number.yaml").write_text(text)
    done = run_recorded((*command, "--config=number.yaml"))
    assert done.code != 0
    assert "Expected type <class 'str'>" in done.stderr
    assert recorder.requests == []


def timeless(request):
    """Without what differs from run to run: the archive's bytes and hash, and its boundary."""
    document = json.loads(
        re.sub(r"\b[0-9a-f]{64}\b|(?<=%2F)[0-9a-f]{64}", "HASH", json.dumps(request))
    )
    for name, value in document.get("headers", {}).items():
        document["headers"][name] = re.sub(r"=+\d+=+", "BOUNDARY", value)
    if "base64" in document:
        body = base64.b64decode(document.pop("base64"))
        head, _, rest = body.partition(b"Content-Transfer-Encoding: binary\n\n")
        assert rest, body[:500]
        document["head"] = re.sub(r"=+\d+=+|\d+", "N", head.decode())
    return document


@pytest.mark.parametrize("name", COMMANDS)
def test_the_server_answers_recorded_requests(name, asked_about):
    requests = json.loads((RECORDINGS / f"{name}.json").read_text())
    statuses = STATUS.get(name, [200] * len(requests))
    answers = [sent(asked_about, request) for request in requests]
    assert [status for status, _ in answers] == statuses, answers
    assert all(answer["error"]["message"] for status, answer in answers if status != 200)


@pytest.fixture(scope="module")
def asked_about(server):
    """The job that the recordings ask about is there before they do."""
    for recorded in json.loads((RECORDINGS / "ml-submit-flags.json").read_text()):
        sent(server, recorded)
    return server


def sent(server, request):
    """The request as gcloud sent it, with a token of ours and a run of its own."""
    connection = server.connection()
    body = base64.b64decode(request.get("base64", "")) or (
        json.dumps(request["json"]).encode() if "json" in request else None
    )
    run = "f" * 32  # one invocation: what is there already is answered, not refused
    headers = {
        "authorization": f"Bearer {server.token}",
        "user-agent": f"google-cloud-sdk gcloud/528.0.0 invocation-id/{run}",
        **request.get("headers", {}),
    }
    try:
        connection.request(request["verb"], request["path"], body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()
