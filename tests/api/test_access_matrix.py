"""Every route with every kind of caller: who is let in is what ``access_rules`` says, by any way.

All is in one process: the application as a server has it, and callers that send it requests.
"""

import asyncio
import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import NamedTuple

import grpc
import pytest

from api.access_rules import NOT_HERE, filled, rules, served
from api.grpc_calls import grpc_client
from conftest import FULL
from databases import new_database
from trainshed.app.application import build
from trainshed.config import Settings
from trainshed.model.access import AccessRole
from trainshed.service.auth import bucket_tokens, tokens
from trainshed.testing.fake_engine import FakeEngine
from trainshed.wire.descriptors import message_class

OWN, OTHER, ALL = "alpha-proj", "bravo-proj", "*"
BUCKET, OTHER_BUCKET, EVERY = "alpha-bucket", "alpha-other", "*"
ROLES = {role.name.lower(): role for role in AccessRole}
RULES = rules()
AGES_AGO = datetime(2020, 1, 1, tzinfo=UTC)
#: The collection at which ``make test`` tries every kind of caller, of those that are not here: one
#: function answers for all.  At the others it tries the callers below.
EXAMPLE = "datasets"
ONE_OF_EACH = (
    "nobody",
    "revoked",
    f"viewer of {OWN}",
    f"submitter of {OTHER}",
    f"submitter for {BUCKET}",
)


class Kind(NamedTuple):
    """A kind of caller; one without a role is let in nowhere."""

    text: str | None
    role: str = ""
    project: str = ""
    bucket: str = ""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A server with a bucket of alpha's, and the text of a token of each kind."""
    folder = tmp_path_factory.mktemp("matrix")
    new_database(folder)
    settings = Settings(data_dir=folder, failed_sign_ins_a_minute=0)
    application = build(settings, engine=FakeEngine([]))
    native_of(application).openapi = dict  # it takes a second; other tests read the document
    store = application.store
    store.add_bucket(BUCKET, OWN)
    log = application.audit_log

    def noted():
        """What was noted since it was asked for last."""
        entries, log._waiting = log._waiting, []
        return entries

    yield SimpleNamespace(
        application=application,
        noted=noted,
        folder=folder,
        callers=callers(store, application.chain_services.recognise),
        routes={*served(application.http, application.table, native_of(application))},
    )
    application.stop()


def callers(store, recognise):
    """Every kind of caller, by a name that is the token's own."""
    kinds = {"nobody": Kind(None), "unknown": Kind("tsd_never-was")}
    for project, role in itertools.product((OWN, OTHER, ALL), ROLES):
        name = f"{role} of {project}"
        token = tokens.create(store, {"name": name, "role": role, "project": project})
        kinds[name] = Kind(token.token, role, project)
    maker = recognise(f"Bearer {token.token}", loopback=True, address="")
    for bucket, role in itertools.product((BUCKET, OTHER_BUCKET), ("viewer", "submitter")):
        name = f"{role} for {bucket}"
        wish = {"bucket": bucket, "readOnly": role == "viewer"}
        token = bucket_tokens.create(store, replace(maker, name=name), OWN, wish)
        kinds[name] = Kind(token.token, role, OWN, bucket)
    for project, role in itertools.product((OWN, OTHER, ALL), ("viewer", "submitter")):
        name = f"{role} for every bucket of {project}"
        wish = {"bucket": EVERY, "readOnly": role == "viewer"}
        token = bucket_tokens.create(store, replace(maker, name=name, project=project), OWN, wish)
        kinds[name] = Kind(token.token, role, project, EVERY)
    gone = tokens.create(store, {"role": "admin"})
    tokens.revoke(store, gone.id)
    kinds["revoked"] = Kind(gone.token)
    kinds["expired"] = Kind(ended(store, AGES_AGO))
    kinds["expired for a bucket"] = Kind(ended(store, AGES_AGO, bucket=BUCKET, parent="x"))
    return kinds


def ended(store, expire_time, **more):
    """The text of a token whose time is over."""
    text, token = tokens.new_token("ended", OWN, AccessRole.ADMIN)
    store.add_token(replace(token, expire_time=expire_time, **more))
    return text


def native_of(application):
    mount = next(row for row in application.http.routes if row.path == "/trainshed/v1")
    return mount.app.app.made()


def test_every_route_has_a_rule_and_every_rule_a_route(world):
    assert world.routes == set(RULES)


NAMES = {
    "project": OWN, "location": "us-central1", "job": "7", "pipeline": "7", "operation": "7",
    "model": "7", "batch_prediction_job": "7", "endpoint": "7", "persistent_resource": "7",
    "data_labeling_job": "7", "dataset": "7", "deployment_resource_pool": "7",
    "feature_group": "7", "feature_online_store": "7", "featurestore": "7",
    "index_endpoint": "7", "index": "7", "metadata_store": "7",
    "model_deployment_monitoring_job": "7", "nas_job": "7", "notebook_execution_job": "7",
    "schedule": "7", "study": "7", "tuning_job": "7",
    "pipeline_job": "7", "tensorboard": "7",
    "bucket": BUCKET, "name:path": "thing", "name": "thing",
    "path:path": "jobs", "path": "jobs",
    "node:path": "none", "node": "none", "uid": "7", "attempt": "1", "token": "none", "key": "none",
}  # fmt: skip
LOG_QUERY = {
    "filter": 'resource.labels.job_id="7" AND timestamp>="1970-01-01T01:00:00Z"',
    "orderBy": "timestamp asc",
    "resourceNames": [f"projects/{OWN}"],
}


def may(rule, who, *, in_path=False):
    """Whether a caller is let in by a rule; a path is no place but for tokens for buckets."""
    if rule == "open" or (rule == "signing" and not who.text):
        return True
    if not who.role or (in_path and not who.bucket):
        return False
    kind, least = ("", *rule.split())[-2:]
    if who.bucket:
        is_its = who.bucket in (BUCKET, EVERY) or (kind, least) == ("listing", "viewer")
        is_its = is_its and who.project in (OWN, ALL)
        return kind != "" and is_its and ROLES[who.role] >= ROLES[least]
    if least == "administrator":
        return who.role == "admin" and who.project == ALL
    if least == "overseer":
        return who.project == ALL
    is_inside = who.project in (OWN, ALL) and ROLES[who.role] >= ROLES.get(least, 0)
    return least in ("known", "signed", "signing") or is_inside


def expected(rule, who, *, in_path=False):
    """What a caller who is not let in is told."""
    if (who.text and not who.role) or (in_path and not who.bucket):
        return 401
    if rule == "signed" and not who.text:
        return 401
    is_hidden = who.project == OTHER or who.bucket == OTHER_BUCKET
    return 404 if rule.startswith("bucket") and is_hidden else 403


def request_of(verb, path):
    """What is asked for, and the document that is sent."""
    target = filled(path, NAMES)
    if target == "/v2/entries:list":
        return target, LOG_QUERY
    if target.endswith("/storage/v1/b"):
        return f"{target}?project={OWN}", {"name": BUCKET}
    if "upload" in target:
        query = "uploadType=media&name=thing" if verb == "POST" else "upload_id=none"
        return f"{target}?{query}", {}
    return (f"{target}/compose" if target.endswith("/thing") and verb == "POST" else target), {}


async def ask(app, verb, target, document, text=None):
    """(status, content) of one request with this bearer token."""
    path, _, query = target.partition("?")
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    if text is not None:
        headers.append((b"authorization", f"Bearer {text}".encode()))
    body = json.dumps(document).encode()
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    sent = []

    async def receive():
        return incoming.pop() if incoming else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": verb, "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "headers": headers,
        "client": ("127.0.0.1", 4321), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], content.decode()


def is_refused(status, text):
    return status in (401, 403) or (status == 404 and "bucket does not exist" in text)


def test_every_route_lets_in_whom_its_rule_names_and_nobody_else(world):
    """All that is asked of one route is asked before it may change something."""

    async def all_of_them():
        return [
            faults
            for (verb, path), rule in sorted(RULES.items())
            for faults in [await one_route(world, verb, path, rule)]
            if faults
        ]

    assert asyncio.run(all_of_them()) == []


async def one_route(world, verb, path, rule):
    """What is wrong with a route."""
    faults = []
    own = path.removeprefix(IN_PATH)
    in_path = own != path
    for name in callers_at(world, path):
        who = world.callers[name]
        prepare(world)
        target, document = request_of(verb, own)
        prefix = f"/as/{who.text}" if in_path else ""
        header = None if in_path else who.text
        answer = await ask(world.application.http, verb, f"{prefix}{target}", document, header)
        is_in = may(rule, who, in_path=in_path)
        expected_status = None if is_in else expected(rule, who, in_path=in_path)
        status = answer[0] if is_refused(*answer) else None
        if status != expected_status:
            faults.append((verb, path, name, expected_status, answer))
        faults += wrongly_noted(world, verb, own, who, answer)
    return faults


def callers_at(world, path):
    """Return the names of the callers of a route."""
    parts = {*path.split("/")}
    is_repeated = parts & NOT_HERE.keys() and EXAMPLE not in parts
    return ONE_OF_EACH if is_repeated and not FULL else world.callers


def wrongly_noted(world, verb, path, who, answer):
    """What the audit log should say of a call that has just been answered, and does not."""
    noted = world.noted()
    refused = is_refused(*answer)
    is_ours = path.startswith("/trainshed")
    least = RULES[verb, path].split()[-1]
    changes = verb != "GET" and (is_ours or least == "submitter")
    changes = changes and not path.endswith((":check", ":dryRun"))
    is_first_visit = (verb, path, who.text) == ("GET", "/trainshed/v1/signin", None)
    if is_first_visit or (not refused and not changes):
        return noted
    if len(noted) != 1 or noted[0].address != "127.0.0.1":
        return [("noted", noted)]
    caller = who.role and next(name for name, kind in world.callers.items() if kind is who)
    status = STATUS[answer[0]] if refused else noted[0].status
    right = (caller, status) == (noted[0].caller, noted[0].status)
    return [] if right else [("noted", noted, answer)]


STATUS = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}


#: Storage clients that cannot send a header have their token here.
IN_PATH = "/as/{token}"


def prepare(world):
    """The bucket of alpha's and the object in it are there, whatever was done to them."""
    bucket = world.folder / "buckets" / BUCKET
    if not (bucket / "thing").exists():
        bucket.mkdir(parents=True, exist_ok=True)
        (bucket / "thing").write_text("x")


def test_grpc_lets_in_the_same(world, tmp_path):
    rows = [row for row in world.application.table if row.rpc]
    wrong = []
    with grpc_client(rows, world.application.chain_services, tmp_path) as client:
        for row in rows:
            rule = RULES[row.verb, row.path]
            for name, who in world.callers.items():
                code = code_of(client, row, who.text)
                expected_code = None if may(rule, who) else CODES[expected(rule, who)]
                if (code if code in CODES.values() else None) != expected_code:
                    wrong.append((row.rpc, name, expected_code, code))
                noted = [(entry.method, entry.status) for entry in world.noted()]
                if expected_code and noted != [(row.rpc, expected_code)]:
                    wrong.append((row.rpc, name, expected_code, noted))
    assert wrong == []


CODES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}


def code_of(client, row, text):
    path = filled(row.path, NAMES).partition("/")[2].partition("/")[2].partition(":")[0]
    fields = message_class(row.request).DESCRIPTOR.fields_by_name
    if "parent" in fields or "ListOperations" in row.rpc:
        path = path.rpartition("/")[0]
    request = {"parent" if "parent" in fields else "name": path}
    try:
        client.call(row.rpc, LOG_QUERY if "resource_names" in fields else request, text)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"
