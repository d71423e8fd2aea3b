"""The table knows every method of the training collections that Google's clients know."""

import json
import re
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest

from trainshed.api.call import Routes
from trainshed.api.table import Handlers, google_table
from trainshed.model.access import AccessRole
from trainshed.wire.descriptors import message_class

GOOGLE_PYTHON = Path(__file__).parent.parent.parent / ".venv-google/bin/python"

ROWS = google_table(
    Handlers(
        ml_jobs=Mock(),
        custom_jobs=Mock(),
        tuning_jobs=Mock(),
        pipelines=Mock(),
        models=Mock(),
        operations=Mock(),
        logs=Mock(),
    )
)
ROUTES = Routes(ROWS)

#: v1 alone has these, and nothing here writes or reads them.
NOT_SENT = {
    ("google.cloud.aiplatform.v1.Model", "pipeline_job"),
    ("google.cloud.aiplatform.v1.Model", "data_stats"),
    ("google.cloud.aiplatform.v1.ListModelsRequest", "order_by"),
}


@pytest.fixture(scope="module")
def google():
    """What the clients call.  They live in an environment of their own."""
    if not GOOGLE_PYTHON.exists():
        pytest.skip("Google's client packages are not here; `make test` installs them")
    script = Path(__file__).with_name("google_methods.py")
    done = subprocess.run([GOOGLE_PYTHON, script], check=True, capture_output=True, text=True)
    calls = json.loads(done.stdout)
    assert all(calls[kind] for kind in ("rest", "http", "grpc"))
    return calls


def with_names(template):
    """A template of either kind with every id filled in."""
    whole = re.sub(r"\{(?:name|parent)=([^}]*)\}", r"\1", template)
    return re.sub(r"\*|\{\w+\}", "x", whole)


def test_every_method_of_the_discovery_documents_has_its_row(google):
    for name, verb, path, query in google["rest"]:
        row, _ = ROUTES.find(verb, with_names(path))
        assert sorted(row.query) == query, name


def test_no_row_is_made_up(google):
    """But for logging, whose document is not bundled."""
    calls = {(verb, with_names(path)) for _, verb, path, _ in google["rest"]}
    ours = {(row.verb, with_names(row.path)) for row in ROWS if row.path.startswith("/v1/")}
    assert ours <= calls


def test_every_call_of_the_transports_has_its_row(google):
    for verb, path, body in google["http"]:
        row, _ = ROUTES.find(verb, with_names(path))
        assert row.body == body, path


def test_every_grpc_call_has_its_row_and_its_messages(google):
    rows = {row.rpc: row for row in ROWS if row.rpc}
    for rpc, request, response in google["grpc"]:
        row = rows[rpc]
        assert (row.request.rpartition(".")[2], row.response.rpartition(".")[2]) == (
            request,
            response,
        )
    later = {f"google.longrunning.Operations/{call}Operation" for call in CALLS_OF_THE_MIXIN}
    logging = {"google.logging.v2.LoggingServiceV2/ListLogEntries"}  # another package's
    assert set(rows) - {rpc for rpc, *_ in google["grpc"]} == later | logging


#: The clients have them, and do not name the message of their answers.
CALLS_OF_THE_MIXIN = ("Cancel", "Delete", "Wait")


def test_the_bytes_of_v1beta1_are_those_of_v1(google):
    assert {tuple(field) for field in google["beta"]} <= NOT_SENT


def test_the_messages_of_every_rpc_are_shipped():
    for row in ROWS:
        if row.rpc:
            assert message_class(row.request)
            assert message_class(row.response)


def test_an_rpc_is_there_once():
    names = [row.rpc for row in ROWS if row.rpc]
    assert len(names) == len(set(names))


def test_every_row_of_aiplatform_is_there_as_beta():
    paths = {(row.verb, row.path) for row in ROWS}
    for row in ROWS:
        if row.path.startswith("/v1/projects/{project}/locations/"):
            assert (row.verb, row.path.replace("/v1/", "/v1beta1/", 1)) in paths


def test_whatever_changes_something_needs_a_submitter():
    for row in ROWS:
        changes = row.handle.__module__ != "trainshed.api.not_here"
        if row.verb != "GET" and changes and not row.path.endswith((":wait", "entries:list")):
            assert row.role is AccessRole.SUBMITTER, (row.verb, row.path)
        else:
            assert row.role is AccessRole.VIEWER, (row.verb, row.path)


def test_every_path_finds_its_own_row():
    for row in ROWS:
        match, params = ROUTES.find(row.verb, with_names(row.path))
        assert match is row
        assert set(params.values()) <= {"x"}


def test_two_rows_of_one_path_are_a_mistake_of_ours():
    with pytest.raises(AssertionError, match="is in the table twice"):
        Routes([ROWS[0], ROWS[0]])
