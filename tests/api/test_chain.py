"""Each step of the chain keeps its promise, and they come in the promised order."""

import json

import pytest

from api.support import BODY_BYTES_MAX, Seen, method, surroundings
from trainshed.api import chain
from trainshed.api.chain import CHAIN, GRPC_ADMISSION, RequestContext, grpc_chain, perform
from trainshed.model.access import AccessRole
from trainshed.model.refusals import Code, Refusal
from trainshed.store.base import StoreFault

JOBS = "/v1/projects/{project}/jobs"


def passage(**fields):
    defaults = {"authorization": "Bearer demo", "host": "testserver", "verb": "GET"}
    return RequestContext(**defaults | {"path": "/v1/projects/demo/jobs"} | fields)


def through(context, **changes):
    handle = Seen()
    rows = [
        method("GET", JOBS, handle, query=("pageSize",)),
        method("POST", JOBS, handle, role=AccessRole.SUBMITTER, body="*"),
        method("POST", JOBS + "/{job}:cancel", handle, role=AccessRole.SUBMITTER, body="*"),
        method("POST", "/v2/entries:list", handle, body="*"),
    ]
    perform(CHAIN, surroundings(rows, **changes), context)
    return handle.calls[0]


def refused(context, **changes):
    with pytest.raises(Refusal) as error:
        through(context, **changes)
    return error.value


def test_the_docstring_lists_the_steps_in_their_order():
    names = [line.split("``")[1] for line in chain.__doc__.splitlines() if line[:1].isdigit()]
    assert names == [step.__name__ for step in CHAIN]


def test_every_step_says_what_it_does():
    assert all(step.__doc__ for step in CHAIN)


def test_a_call_reaches_its_handler_with_all_that_was_found():
    body = b'{"jobId": "a"}'
    call = through(passage(verb="POST", body=body, user_agent="gcloud invocation-id/ab12 x"))
    assert (call.caller.name, call.params, call.document) == (
        "dora",
        {"project": "demo"},
        {"jobId": "a"},
    )
    assert call.retry_key


def test_the_answer_is_compact_json():
    context = passage()
    through(context)
    assert context.reply == b'{"ok":true}'


@pytest.mark.parametrize("name", ["demo", "1001"])
@pytest.mark.parametrize("token", ["demo", "admin"])
def test_a_project_goes_by_its_id_whatever_it_was_called_by(name, token):
    call = through(passage(path=f"/v1/projects/{name}/jobs", authorization=f"Bearer {token}"))
    assert call.params == {"project": "demo"}


@pytest.mark.parametrize("name", ["other", "1002", "never-was", "77"])
def test_a_foreign_project_and_none_are_refused_in_the_same_words(name):
    refusal = refused(passage(path=f"/v1/projects/{name}/jobs"))
    assert refusal.code is Code.PERMISSION_DENIED
    assert refusal.message == f"Permission denied on project {name} (or it may not exist)"


def test_a_strangers_word_for_a_project_never_reaches_the_store():
    lookups = []

    def project(text):
        lookups.append(text)
        return text, "1001"

    permissions = chain.Permissions(project)
    refused(passage(path="/v1/projects/never-was/jobs"), permissions=permissions)
    assert lookups == ["demo"]


def test_the_names_of_a_project_are_looked_up_once():
    lookups = []
    permissions = chain.Permissions(lambda text: lookups.append(text) or (text, "1001"))
    for _ in range(3):
        through(passage(), permissions=permissions)
    assert lookups == ["demo"]


@pytest.mark.parametrize("name", ["a b", "-", "a%2Fb", "%C3%A9", "a" * 101])
def test_what_cannot_be_a_project_is_no_project(name):
    context = passage(path=f"/v1/projects/{name}/jobs", authorization="Bearer admin")
    assert refused(context).code is Code.INVALID_ARGUMENT


def test_a_viewer_may_look_and_not_submit():
    through(passage(authorization="Bearer reader"))
    refusal = refused(passage(authorization="Bearer reader", verb="POST"))
    assert refusal.code is Code.PERMISSION_DENIED
    assert "rita has the role viewer, and this call needs the role submitter" in refusal.message


def test_a_path_without_a_project_asks_for_the_role_only():
    call = through(passage(verb="POST", path="/v2/entries:list", body=b"{}"))
    assert call.params == {}


def test_steps_are_taken_in_order():
    """What is wrong earlier in the chain is what the caller hears."""
    wrong = passage(
        verb="POST",
        host="evil.example",
        authorization=None,
        body=b"x" * (BODY_BYTES_MAX + 1),
        path="/v9/nothing",
    )
    assert "name 'evil.example'" in refused(wrong).message
    wrong.host = "testserver"
    assert "no credentials" in refused(wrong).message
    wrong.authorization = "Bearer demo"
    assert "is larger than" in refused(wrong).message
    wrong.body = b"x"
    assert "no method at" in refused(wrong).message
    wrong.path = "/v1/projects/other/jobs"
    assert "Permission denied" in refused(wrong).message
    wrong.path = "/v1/projects/demo/jobs"
    assert "Invalid JSON payload" in refused(wrong).message
    wrong.body = b"{}"
    assert through(wrong)


# ---- repetitions ----


def key(**fields):
    defaults = {"verb": "POST", "body": b"{}", "user_agent": "gcloud/1 invocation-id/ab12"}
    return through(passage(**defaults | fields)).retry_key


def test_a_repetition_has_the_key_of_the_first_try():
    assert key() == key()
    assert len(key()) == 64


@pytest.mark.parametrize(
    "other",
    [
        {"user_agent": "gcloud/1 invocation-id/ab13"},
        {"body": b'{"a": 1}'},
        {"authorization": "Bearer admin"},
        {"path": "/v1/projects/1001/jobs"},
    ],
    ids=["another run", "another body", "another caller", "another path"],
)
def test_what_differs_is_no_repetition(other):
    assert key(**other) not in (None, key())


def test_only_creates_of_gcloud_have_a_key():
    assert key(user_agent="python-requests/2") is None
    assert key(path="/v1/projects/demo/jobs/a:cancel") is None
    assert key(verb="GET", body=b"") is None


# ---- what nobody foresaw ----


def test_an_unforeseen_error_is_a_number_for_the_caller_and_a_story_in_the_log(caplog):
    rows = [method("GET", JOBS, Seen(ZeroDivisionError("secret detail")))]
    with pytest.raises(Refusal) as error:
        perform(CHAIN, surroundings(rows), passage())
    refusal = error.value
    number = refusal.message.rpartition(" ")[2]
    assert refusal.code is Code.INTERNAL
    assert "secret" not in refusal.message
    [record] = caplog.records
    assert number in record.getMessage()
    assert "ZeroDivisionError: secret detail" in caplog.text


def test_an_answer_that_is_no_json_is_our_mistake(caplog):
    rows = [method("GET", JOBS, Seen({"a": float("nan")}))]
    with pytest.raises(Refusal) as error:
        perform(CHAIN, surroundings(rows), passage())
    assert error.value.code is Code.INTERNAL
    assert "not JSON compliant" in caplog.text


def test_grpc_goes_the_same_way_between_its_messages():
    def read(_, context):
        context.method = method("GET", JOBS, Seen({"n": 1}))
        context.params = {"project": "1001"}

    def write(_, context):
        context.reply = json.dumps([context.answer, context.params]).encode()

    context = RequestContext(authorization="Bearer demo")
    perform((*GRPC_ADMISSION, *grpc_chain(read, write)), surroundings([]), context)
    assert json.loads(context.reply) == [{"n": 1}, {"project": "demo"}]


def test_a_database_that_is_away_is_no_incident_but_asks_to_try_again(caplog):
    def away(*_):
        raise StoreFault("no connection to db.internal")

    with pytest.raises(Refusal) as error:
        perform([away], surroundings([]), passage())
    assert error.value.code is Code.UNAVAILABLE
    assert "try again" in error.value.message
    assert "db.internal" not in error.value.message
    assert "db.internal" in caplog.text
