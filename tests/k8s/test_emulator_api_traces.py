"""The emulator answers requests of a real cluster's traces as that cluster did."""

import json
import re

import pytest

from k8s.emulator.api import EmulatedApi
from k8s.emulator.statuses import ApiError
from k8s.http_calls import Caller, make_pod
from k8s.recorded import read_trace

#: Watches and lists of these traces wait; one second is as good as the three of the recording.
SECONDS = {"timeoutSeconds": "1"}
USERS = {"wrong token": {"token": "wrong"}, "without rights": {"impersonated": "nobody"}}
VARYING = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation")


def read_exchanges(name):
    """(request, response) pairs of a trace, in order."""
    calls = [record for record in read_trace(name) if record["rec"] in ("request", "response")]
    return list(zip(calls[::2], calls[1::2], strict=True))


def replay(api, request, uids):
    """Send a recorded request; uids of the recording become those of this run."""
    text = json.dumps(request.get("body"))
    for recorded, current in uids.items():
        text = text.replace(recorded, current)
    query = dict(request.get("query", {}))
    if "timeoutSeconds" in query:
        query.update(SECONDS)
    if query.get("resourceVersion") == "6108":
        query["resourceVersion"] = str(api.store.resource_version)
    note = request.get("note", "")
    user = next((user for words, user in USERS.items() if words in note), {})
    body = json.loads(text)
    more = {"content_type": request["contentType"]} if "contentType" in request else {}
    return Caller(api, **user).call(request["method"], request["path"], body, **more, **query)


def normalize(text, uids):
    for recorded, current in uids.items():
        text = text.replace(current, recorded)
    text = re.sub(r"too old resource version: \d+ \(\d+\)", "too old resource version", text)
    return re.sub(r"current: \d+", "current: N", text)


def read_recorded(response):
    return response["text"] if "text" in response else json.dumps(response["body"])


def strip(body):
    """An object without what differs from run to run; ``status`` is the controllers' work."""
    metadata = {k: v for k, v in body.get("metadata", {}).items() if k not in VARYING}
    return {**{k: v for k, v in body.items() if k != "status"}, "metadata": metadata}


def is_part(part, whole):
    """True where all members of ``part`` are in ``whole`` with these values."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_part(value, whole[key]) for key, value in part.items())
    return part == whole


def check_answer(request, response, reply, uids):
    note = f"{request['method']} {request['path']} {request.get('note', '')}"
    assert reply.status == response["status"], f"{note}: {reply.text}"
    recorded, text = read_recorded(response), normalize(reply.text, uids)
    if response["status"] < 400 and "body" in response:
        expected, answer = json.loads(recorded), json.loads(text)
        assert is_part(strip(expected), strip(answer)), note
        return
    try:
        expected = json.loads(normalize(recorded, {}))
    except ValueError:
        assert text == recorded, note
        return
    answer = json.loads(text)
    if expected.get("type") == "BOOKMARK":
        expected["object"]["metadata"] = answer["object"]["metadata"]
    assert answer == expected, note


@pytest.fixture
def api():
    """With a collector that works when a test says so."""
    emulated = EmulatedApi()
    emulated.server.start()
    yield emulated
    emulated.stop()


@pytest.mark.parametrize("name", ["k", "k2", "l", "l2", "p", "s"])
def test_answers_are_those_of_the_trace(api, name):
    exchanges = read_exchanges(name)
    namespace = re.search(r"/namespaces/([^/]+)/", exchanges[0][0]["path"]).group(1)
    api.create_namespace(namespace)
    api.server.expire_watches()
    uids = {}
    for request, response in exchanges:
        # A recording leaves its cluster the time to collect what the request before it deleted.
        api.collector.drain()
        reply = replay(api, request, uids)
        if response["status"] == 201 and response["body"]["metadata"].get("uid"):
            uids[response["body"]["metadata"]["uid"]] = reply.body["metadata"]["uid"]
        check_answer(request, response, reply, uids)


def test_a_second_apply_of_numbers_raises_the_generation_and_a_third_does_not(api):
    """Trace l2: quantities that are numbers come back as texts the first time only."""
    api.create_namespace("l2-apply-twice")
    generations = []
    for request, response in read_exchanges("l2"):
        reply = replay(api, request, {})
        generations.append(reply.body["metadata"]["generation"])
        assert generations[-1] == response["body"]["metadata"]["generation"]
    assert generations == [1, 2, 2]


def list_name_limits():
    return [record for record in read_trace("k") if record["rec"] == "limit"]


@pytest.mark.parametrize("limit", list_name_limits(), ids=lambda row: row["arithmetic"])
def test_names_may_be_as_long_as_the_trace_found(api, limit):
    request, _ = read_exchanges("k")[0]
    api.create_namespace("k-invalid")
    for more, code in ((0, 201), (1, 422)):
        body = json.loads(json.dumps(request["body"]))
        name = "a" * (limit["longestJobSetName"] + more)
        body["metadata"]["name"] = body["spec"]["network"]["subdomain"] = name
        role = body["spec"]["replicatedJobs"][0]
        role["name"] = limit["role"]
        body["spec"]["successPolicy"]["targetReplicatedJobs"] = [limit["role"]]
        for field in ("parallelism", "completions"):
            role["template"]["spec"][field] = limit["parallelism"]
        reply = Caller(api).call("POST", request["path"], body, dryRun="All")
        assert reply.status == code
    assert reply.body["message"] == limit["oneMore"]


def read_event_messages(name, reason):
    rows = read_trace(name)
    events = [r["object"] for r in rows if r["rec"] == "watch" and r["kind"] == "Event"]
    return {e["message"] for e in events if e["reason"] == reason}


def test_jobs_of_broken_templates_are_refused_as_the_controller_reported(api):
    """Trace k2: the JobSet is accepted, the Job that its controller creates is not."""
    expected = read_event_messages("k2", "JobCreationFailed")
    messages = set()
    for request, _ in read_exchanges("k2")[:2]:
        for role in request["body"]["spec"]["replicatedJobs"]:
            name = f"{request['body']['metadata']['name']}-{role['name']}-0"
            job = {"apiVersion": "batch/v1", "kind": "Job", "spec": role["template"]["spec"]}
            job["metadata"] = {"name": name, "namespace": "default"}
            try:
                api.store.create(job)
            except ApiError as error:
                messages.add(f'job "{name}" creation failed with error: {error.message}')
    assert messages == expected


def test_a_quota_refuses_pods_as_the_controller_reported(api):
    """Trace p2: one pod and one GPU; the second pod is refused with what is used and limited."""
    hard = {"pods": "1", "requests.nvidia.com/gpu": "1"}
    api.store.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": hard},
        }
    )
    container = {"name": "main", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    api.store.create(make_pod("first", containers=[container]))
    with pytest.raises(ApiError) as refusal:
        api.store.create(make_pod("second", containers=[container]))
    (message,) = {
        re.sub(r'"[^"]*"', '"second"', text).removeprefix("Error creating: ")
        for text in read_event_messages("p2", "FailedCreate")
    }
    assert refusal.value.message == message
    quota = api.store.get("ResourceQuota", "default", "q")
    assert quota["status"] == {"hard": hard, "used": hard}
