"""Every route with every kind of caller: who is let in is what ``access_rules`` says, by any way.

All is in one process: the application as a server has it, and callers that send it requests.
"""

import asyncio
import json
from types import SimpleNamespace

import grpc
import pytest

from api.access_rules import filled, rules, served
from api.grpc_calls import grpc_client
from databases import new_database
from trainshed.app import build
from trainshed.config import Settings
from trainshed.model.access import AccessRole
from trainshed.service.auth import tokens
from trainshed.testing.fake_engine import FakeEngine
from trainshed.wire.descriptors import message_class

OWN, OTHER, ALL = "alpha-proj", "bravo-proj", "*"
BUCKET = "alpha-bucket"
ROLES = {role.name.lower(): role for role in AccessRole}
RULES = rules()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A server with a bucket of alpha's, and a token of each kind."""
    folder = tmp_path_factory.mktemp("matrix")
    new_database(folder)
    application = build(Settings(data_dir=folder), engine=FakeEngine([]))
    store = application.store
    made = {
        f"{role} of {project}": tokens.create(store, {"role": role, "project": project})
        for project in (OWN, OTHER, ALL)
        for role in ROLES
    }
    gone = tokens.create(store, {"role": "admin"})
    tokens.revoke(store, gone["id"])
    store.add_bucket(BUCKET, OWN)
    texts = {name: found["token"] for name, found in made.items()}
    strangers = {"nobody": None, "unknown": "tsd_never-was", "revoked": gone["token"]}
    yield SimpleNamespace(
        application=application,
        folder=folder,
        texts={**strangers, **texts},
        routes={*served(application.http, application.table, native_of(application))},
    )
    application.stop()


def native_of(application):
    mount = next(each for each in application.http.routes if each.path == "/trainshed/v1")
    return mount.app.app.made()


def test_every_route_has_a_rule_and_every_rule_a_route(world):
    assert world.routes == set(RULES)


NAMES = {
    "project": OWN, "location": "us-central1", "job": "7", "pipeline": "7", "operation": "7",
    "model": "7", "tensorboard": "7", "bucket": BUCKET, "name:path": "thing", "name": "thing",
    "node": "none", "token": "none", "key": "none",
}  # fmt: skip
LOG_QUERY = {
    "filter": 'resource.labels.job_id="7" AND timestamp>="1970-01-01T01:00:00Z"',
    "orderBy": "timestamp asc",
    "resourceNames": [f"projects/{OWN}"],
}


def may(rule, name):
    """Whether a caller of the matrix is let in by a rule."""
    if rule == "open":
        return True
    word, _, project = name.partition(" of ")
    role = ROLES.get(word)
    if role is None:
        return False
    match rule.split()[-1]:
        case "known":
            return True
        case "administrator":
            return role is AccessRole.ADMIN and project == ALL
        case "asking":
            return project in (OWN, ALL)
        case least:
            return project in (OWN, ALL) and role >= ROLES[least]


def expected(rule, name):
    """What a caller who is not let in is told."""
    if name in ("unknown", "revoked"):
        return 401
    project = name.partition(" of ")[2]
    return 404 if rule.startswith("bucket") and project == OTHER else 403


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
            found
            for (verb, path), rule in sorted(RULES.items())
            for found in [await one_route(world, verb, path, rule)]
            if found
        ]

    assert asyncio.run(all_of_them()) == []


async def one_route(world, verb, path, rule):
    """What is wrong with a route."""
    found = []
    own = path.removeprefix(IN_PATH)
    for name, text in world.texts.items():
        prepare(world)
        target, document = request_of(verb, own)
        if own == path:
            answer = await ask(world.application.http, verb, target, document, text)
        else:
            answer = await ask(world.application.http, verb, f"/as/{text}{target}", document)
        wanted = None if may(rule, name) else expected(rule, name)
        if own != path and text is None:
            wanted = 401  # there is a word in the place of the token
        seen = answer[0] if is_refused(*answer) else None
        if seen != wanted:
            found.append((verb, path, name, wanted, answer))
    return found


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
    with grpc_client(rows, world.application.around, tmp_path) as client:
        for row in rows:
            rule = RULES[row.verb, row.path]
            for name, text in world.texts.items():
                code = code_of(client, row, text)
                wanted = None if may(rule, name) else CODES[expected(rule, name)]
                if (code if code in CODES.values() else None) != wanted:
                    wrong.append((row.rpc, name, wanted, code))
    assert wrong == []


CODES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}


def code_of(client, row, text):
    path = filled(row.path, NAMES).partition("/")[2].partition("/")[2].partition(":")[0]
    fields = message_class(row.request).DESCRIPTOR.fields_by_name
    if "parent" in fields or "ListOperations" in row.rpc:
        path = path.rpartition("/")[0]
    try:
        client.call(row.rpc, {"parent" if "parent" in fields else "name": path}, text)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"
